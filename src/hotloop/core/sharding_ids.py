"""Constants and checks that the techniques for several ranks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan

__all__ = ["HOW", "LEAVE", "SAVE", "SHARING", "ZERO_BUCKET", "launcher", "wants_group"]

# Seconds after a signal; torchrun kills after 30:
SAVE = 18.0  # until collective work, such as a save, is given up
LEAVE = 20.0  # until a process ends itself, at the latest
ZERO_BUCKET = 500_000_000  # most numbers that DeepSpeed sends at once: its own default
SHARING = ("ddp", "fsdp2", "deepspeed")  # a plan of several ranks has one of them


def launcher(ranks: int | str, *, machines: int = 1) -> str:
    """Return the command that starts `hotloop train` with this many processes per machine."""
    if ranks == machines == 1:
        return "hotloop train"
    several = f"--nnodes {machines} ... " if machines > 1 else ""
    return f"torchrun {several}--nproc-per-node {ranks} -m hotloop train"


HOW = f"one process trains alone: start several with {launcher('N')}"


def wants_group(hardware: Hardware, plan: Plan) -> str | None:
    """Return why there is no process group to share with, or None."""
    del hardware
    return HOW if plan.ranks == 1 else None
