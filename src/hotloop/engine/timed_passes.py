"""Time the forward and backward passes of a run's first micro batches."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from hotloop.engine.step import to_device
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["LEAST_RATE", "MOST", "PassRates", "eager_seconds", "seconds"]

MOST: Final = 4  # batches of a round
LEAST_RATE: Final = 1.05  # to keep what was measured; medians of ratios vary by some percent
_ROUNDS: Final = 3  # that count; one more warms up


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRates:
    """Passes of micro batches a second, with a technique and without it."""

    other: float
    eager: float

    @property
    def is_faster(self) -> bool:
        """Whether the other way is faster beyond what such ratios vary by."""
        return self.other >= LEAST_RATE * self.eager

    def __str__(self) -> str:
        """Compare them."""
        return (
            f"{self.other / self.eager:.2f} times the rate of passes without it "
            f"({1e3 / self.other:.2f} and {1e3 / self.eager:.2f} ms, medians of {_ROUNDS})"
        )


def eager_seconds(session: Session, batches: Sequence[Batch]) -> float:
    """Return the seconds of a pass by `session.forward`, which makes new gradients in each window.

    Gradients of before are there again at the end.
    """
    trained = [p for p in session.model.parameters() if p.requires_grad]
    before = [p.grad for p in trained]

    def pass_over(window: Sequence[Batch]) -> None:
        for parameter in trained:
            parameter.grad = None
        with session.stepping.steady():
            for batch in window:
                loss = session.forward(to_device(batch, session.device))
                (session.scaler.scale(loss) if session.scaler else loss).backward()  # type: ignore[no-untyped-call]

    taken = seconds(session, batches, pass_over)
    for parameter, gradient in zip(trained, before, strict=True):
        parameter.grad = gradient
    return taken


def seconds(
    session: Session, batches: Sequence[Batch], pass_over: Callable[[Sequence[Batch]], None]
) -> float:
    """Return the seconds of a micro batch: the median of some rounds over windows of the batches.

    The host waits for the device at the end of a round alone.
    """
    each, rounds = session.accumulation, []
    for _ in range(1 + _ROUNDS):
        began = clock()
        for first in range(0, len(batches), each):
            pass_over(batches[first : first + each])
        if session.device.type == "cuda":
            torch.cuda.synchronize()
        rounds.append((clock() - began) / len(batches))
    return statistics.median(rounds[1:])
