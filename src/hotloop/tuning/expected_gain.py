"""What the doctor's experiments say that a technique gains, before a trial is started for it."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from hotloop import techniques
from hotloop.core.case.experiment import NO_GAIN
from hotloop.core.plan import Plan
from hotloop.rules.support.page_faults import returned_memory
from hotloop.rules.tried import in_words, of_technique, share_of_run
from hotloop.techniques.base import HostKind, Numerics
from hotloop.techniques.script_gate import cannot_pay
from hotloop.tuning.moves import LEAVE, Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.case.case import Case
    from hotloop.core.case.experiment import Experiment

__all__ = ["WORTH", "best_refused", "expected_gain", "limit", "promised"]

WORTH: Final = 1 - 1 / NO_GAIN  # share of the run below which a technique waits for all others
# The parts of a run that a single technique can take away at most, as shares of its time.
_PARTS: Final[Mapping[str, Callable[[Case], float]]] = {
    "the optimizer": lambda case: case.share("optimizer"),
    "garbage collection": lambda case: case.part(case.process.gc_seconds),
    "page faults": returned_memory,
    "the wait for data": lambda case: case.share("data wait"),
}
_ACTS_ON: Final[Mapping[str, str]] = {
    "fused-adamw": "the optimizer",
    "gc-freeze": "garbage collection",
    "kept-memory": "page faults",
    "loader-workers": "the wait for data",
    "sample-cache": "the wait for data",
    "vectorised-reads": "the wait for data",
}
# What techniques took of the forward and backward passes where they were measured (techniques/,
# "Measured"): by it and, for the others, by their median it is decided what is tried first.
_TOOK: Final[Mapping[str, float]] = {
    "autocast-bf16": 0.41,
    "channels-last": 0.08,
    "compile": 0.03,
    "tf32": 0.57,
}
# Experiments that show what a technique is worth without making its own change.
_SHOWN_BY: Final[Mapping[str, str]] = {
    "dynamic-padding": "cut to the longest row",
    "length-bucketing": "cut rows",
    "token-budget": "cut rows",
    "micro-batch": "joined batches",
}


def expected_gain(case: Case, technique: str) -> float | None:
    """Return the share of the run's time that a technique takes away; None: nobody knows.

    An experiment that tried it says so. What no experiment showed is 0 where the technique has next
    to nothing to take away.
    """
    experiment = _experiment(case, technique)
    if experiment is not None and experiment.outcome != "unknown":
        return share_of_run(case, experiment) if experiment.outcome == "gain" else 0.0
    most = _at_most(case, technique)
    return 0.0 if most is not None and most < WORTH else None


def _at_most(case: Case, technique: str) -> float | None:
    part = _ACTS_ON.get(technique)
    return None if part is None else _PARTS[part](case)


def limit(case: Case, technique: str) -> Limit | None:
    """Return what a technique can take away of a step at most; None: nobody knows."""
    most = _at_most(case, technique)
    seconds = None if most is None else case.per_step(most * case.judged)
    return None if seconds is None else Limit(part=_ACTS_ON[technique], seconds=seconds)


def promised(case: Case, technique: str) -> float:
    """Return the share of the run's time that a technique may take away, if none was measured.

    It is what an undecided experiment saw, the part of a step that the technique removes, or what
    it took of the passes elsewhere.
    """
    experiment = _experiment(case, technique)
    if experiment is not None and experiment.outcome == "unknown":
        return share_of_run(case, experiment)
    if (most := _at_most(case, technique)) is not None:
        return most
    passes = case.part(case.computing("forward", "backward"))
    return passes * _TOOK.get(technique, median(_TOOK.values()))


def _experiment(case: Case, technique: str) -> Experiment | None:
    """Return the experiment that tells what a technique gains, if it was made."""
    name = _SHOWN_BY.get(technique)
    if name is None:
        return of_technique(case, technique)
    return next((one for one in case.experiments if one.name == name and one.gain), None)


def best_refused(case: Case, most: Numerics) -> str | None:
    """Return what changes the numbers more than `most` and promises the largest gain.

    None if nothing promises 3 %.
    """
    gains = {
        one.id: gain
        for one in techniques.ALL
        if one.numerics > most
        and HostKind.SCRIPT in one.hosts
        and one.blocked(case.hardware, Plan(micro_batch=1)) is None
        and cannot_pay(one, case) is None
        and (gain := expected_gain(case, one.id) or 0.0) >= WORTH
    }
    if not gains:
        return None
    best = max(gains, key=lambda id: gains[id])
    experiment = _experiment(case, best)
    assert experiment is not None
    why, how = LEAVE[techniques.get(best).numerics]
    return (
        f"not tried, as {why}: {best}; the doctor's experiment says: "
        f"{in_words(case, experiment)}; {how} it is tried"
    )
