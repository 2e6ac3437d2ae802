"""Read losses at the log interval instead of waiting for the device at every step.

What: keeps each step's loss and gradient norm on the device and reads all of them in one wait.
Helps when: the device runs asynchronously: a `.item()` each step drains its queue each step.
Does not help when: the device is the CPU, which has no queue.
Numbers: bitwise the same; a loss that is not finite still stops the run before its update,
    because the update is skipped on the device until the loss is read.
Measured: not measured here: needs a CUDA GPU.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]


def apply(session: Session) -> int:
    """Make the metrics log wait for the device only at the log interval."""
    if session.stepping.lag_reads:
        return 0
    session.stepping.lag_reads = True
    return 1


def read_back(session: Session) -> str | None:
    """Read the session's `lag_reads` flag."""
    return "losses are read at the log interval" if session.stepping.lag_reads else None


TECHNIQUE = Technique(
    id="lagged-loss-read",
    title="Lagged loss read",
    stage=Stage.STEP,
    numerics=Numerics.BITWISE,
    blocked=lambda hardware, plan: (
        "a CPU has no queue to keep filled" if hardware.device == "cpu" else None
    ),
    apply=apply,
    read_back=read_back,
    nothing="losses are read at the log interval already",
    hosts=frozenset({HostKind.ENGINE}),
)
