"""What the techniques for several ranks have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan

__all__ = ["HOW", "SHARING", "launcher", "wants_group"]

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
