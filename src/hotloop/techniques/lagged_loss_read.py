"""Read losses at the log interval instead of waiting for the device at every step.

What: keeps each step's loss and gradient norm on the device and reads all of them in one wait.
Helps when: the device runs asynchronously: a `.item()` each step drains its queue each step.
Does not help when: the device is the CPU, which has no queue.
Numbers: bitwise the same; a loss that is not finite still stops the run before its update,
    because the update is skipped on the device until the loss is read. Only fused optimizers, and
    float16's scaler, can skip it so: before the update of another one the host reads the loss.
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
    """Read the session's `lag_reads` flag, and whether an update must know the loss."""
    if not session.stepping.lag_reads:
        return None
    groups = session.optimizer.param_groups if session.optimizer else ()
    if session.scaler is None and not all(group.get("fused") for group in groups):
        name = type(session.optimizer).__name__
        return (
            f"losses are logged at the interval, but read before each update: {name} is not fused"
        )
    return "losses are read at the log interval"


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
