"""The (x, y) points of a run's charts, by optimizer step or by seconds of wall time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.report.facts import Facts

__all__ = [
    "Point",
    "busy",
    "learning_rates",
    "memory",
    "norms",
    "speeds",
    "training",
    "validation",
    "validation_by_time",
]

Point = tuple[float, float]


def training(run: Facts) -> list[Point]:
    """Return the training loss by step."""
    return [(float(s.trace.step), s.trace.loss) for s in run.history.steps]


def validation(run: Facts) -> list[Point]:
    """Return the validation loss by step."""
    return [(float(v.step), v.loss) for v in run.history.validations]


def validation_by_time(run: Facts) -> list[Point]:
    """Return the validation loss by wall time."""
    return [(v.at, v.loss) for v in run.history.validations]


def figure(run: Facts, name: str) -> list[Point]:
    """Return a validation figure by step."""
    validations = run.history.validations
    return [(float(v.step), v.figures[name]) for v in validations if name in v.figures]


def norms(run: Facts) -> list[Point]:
    """Return the gradient norm by step, without steps whose gradients overflowed."""
    traces = (step.trace for step in run.history.steps)
    return [(float(t.step), t.norm) for t in traces if t.norm is not None]


def learning_rates(run: Facts) -> list[Point]:
    """Return the learning rate by step."""
    return [(float(s.trace.step), s.trace.learning_rate) for s in run.history.steps]


def speeds(run: Facts) -> list[Point]:
    """Return tokens per second by step."""
    return [(float(rate.step), rate.tokens_per_s) for rate in run.rates]


def memory(run: Facts) -> list[Point]:
    """Return bytes in use by wall time."""
    return [(r.at, r.memory_bytes) for r in run.history.readings if r.memory_bytes is not None]


def busy(run: Facts) -> list[Point]:
    """Return the utilisation, 0..1, by wall time."""
    return [(r.at, r.utilisation) for r in run.history.readings if r.utilisation is not None]
