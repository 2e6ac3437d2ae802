"""What the techniques for several ranks have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan

__all__ = ["HOW", "LEAVE", "SAVE", "SHARING", "ZERO_BUCKET", "launcher", "wants_group"]

# Seconds from a signal, of which torchrun gives 30 before it kills:
SAVE = 18.0  # until what was begun together, such as a save, is given up
LEAVE = 20.0  # until a process ends, if nothing else ended it
ZERO_BUCKET = 500_000_000  # numbers that DeepSpeed sends at once, at most: its own default
SHARING = ("ddp", "fsdp2", "deepspeed")  # one of them is in the plan of several ranks


def launcher(ranks: int | str, *, machines: int = 1) -> str:
    """Return how `hotloop train` is started with so many processes on each machine."""
    if ranks == machines == 1:
        return "hotloop train"
    several = f"--nnodes {machines} ... " if machines > 1 else ""
    return f"torchrun {several}--nproc-per-node {ranks} -m hotloop train"


HOW = f"one process trains alone: start several with {launcher('N')}"


def wants_group(hardware: Hardware, plan: Plan) -> str | None:
    """Answer why there is nobody to share with, or None."""
    del hardware
    return HOW if plan.ranks == 1 else None
