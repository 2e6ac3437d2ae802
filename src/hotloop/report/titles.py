"""The titles of a run's charts: the result in words, or "unknown"."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, duration
from hotloop.report import points
from hotloop.report.axis import short_number
from hotloop.report.figures import loss_in_words
from hotloop.report.markup import UNKNOWN

if TYPE_CHECKING:
    from hotloop.report.facts import Facts

__all__ = [
    "busy",
    "course",
    "highest",
    "learning_rate",
    "lowest",
    "memory",
    "norm",
    "speed",
    "time_of_lowest",
]


def lowest(run: Facts) -> str:
    """Return the lowest validation loss and its step."""
    if run.best is None:
        return f"{UNKNOWN}, no validation was made"
    return f"{loss_in_words(run, run.best[0])} at step {run.best[1]:,}"


def highest(run: Facts) -> str:
    """Return the best score and its step."""
    if run.best_score is None:
        return UNKNOWN
    return f"{run.best_score[0]:.4f} at step {run.best_score[1]:,}"


def time_of_lowest(run: Facts) -> str:
    """Return the wall time at which the lowest validation loss was reached."""
    best = min(run.history.validations, key=lambda v: v.loss, default=None)
    return UNKNOWN if best is None else f"{duration(best.at)} for {best.loss:.4f}"


def course(run: Facts) -> str:
    """Return the first and the last training loss and the lowest validation loss."""
    if not run.history.steps:
        return "no step was made."
    first, last = run.history.steps[0].trace, run.history.steps[-1].trace
    return (
        f"training loss {first.loss:.4g} at step {first.step:,} and {last.loss:.4g} at step "
        f"{last.step:,}; lowest validation loss {lowest(run)}."
    )


def norm(run: Facts) -> str:
    """Return the median and the highest gradient norm."""
    known = points.norms(run)
    if not known:
        return UNKNOWN
    step, highest = max(known, key=lambda point: point[1])
    median = statistics.median(n for _, n in known)
    return f"median {median:.3g}, highest {highest:.3g} at step {step:,.0f}"


def learning_rate(run: Facts) -> str:
    """Return the highest and the last learning rate."""
    rates = [rate for _, rate in points.learning_rates(run)]
    return f"highest {_short(max(rates))}, last {_short(rates[-1])}" if rates else UNKNOWN


def speed(run: Facts) -> str:
    """Return the median throughput."""
    known = run.throughput
    return UNKNOWN if known is None else f"median {count(known.median)} tokens/s"


def memory(run: Facts) -> str:
    """Return the range of the memory readings."""
    known = [size for _, size in points.memory(run)]
    return f"{bytes_(min(known))} to {bytes_(max(known))}" if known else UNKNOWN


def busy(run: Facts) -> str:
    """Return the median utilisation."""
    known = [share for _, share in points.busy(run)]
    return f"median {statistics.median(known):.0%}" if known else UNKNOWN


def _short(number: float) -> str:
    return short_number(float(f"{number:.3g}"))
