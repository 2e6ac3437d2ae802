"""What the doctor's experiments say that a technique gains, before a trial is started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.core.case.experiment import NO_GAIN
from hotloop.rules.support.page_faults import returned_memory
from hotloop.rules.tried import of_technique, share_of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.case.case import Case

__all__ = ["WORTH", "expected_gain"]

WORTH: Final = 1 - 1 / NO_GAIN  # share of the run below which a technique waits for all others
# What a technique that nobody has measured can take away at most.
_AT_MOST: Final[Mapping[str, Callable[[Case], float]]] = {
    "fused-adamw": lambda case: case.share("optimizer"),
    "gc-freeze": lambda case: case.part(case.process.gc_seconds),
    "kept-memory": returned_memory,
    "loader-workers": lambda case: case.share("data wait"),
    "sample-cache": lambda case: case.share("data wait"),
    "vectorised-reads": lambda case: case.share("data wait"),
}


def expected_gain(case: Case, technique: str) -> float | None:
    """Return the share of the run's time that a technique takes away; None: nobody knows.

    An experiment that tried it says so. What no experiment showed is 0 where the technique has next
    to nothing to take away.
    """
    experiment = of_technique(case, technique)
    if experiment is not None and experiment.outcome != "unknown":
        return share_of_run(case, experiment) if experiment.outcome == "gain" else 0.0
    most = _AT_MOST.get(technique)
    return 0.0 if most is not None and most(case) < WORTH else None
