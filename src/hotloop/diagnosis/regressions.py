"""Compares a run with its baselines: figures, new findings, and the conditions of --fail-on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from hotloop.core.codec import to_json
from hotloop.core.fail_on import NEW_FINDINGS, ConditionVerdict
from hotloop.core.finding import Severity
from hotloop.core.units import many
from hotloop.diagnosis.baseline import NEW, reasons, unlike
from hotloop.diagnosis.changed_figures import changed_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.fail_on import FailCondition, Outcome
    from hotloop.diagnosis.baseline import Unlike
    from hotloop.diagnosis.changed_figures import FigureChange
    from hotloop.diagnosis.recorded_run import ComparedFinding, RecordedRun

__all__ = ["BaselineComparison", "compare_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """The comparison of a run with its baselines: the section `comparison` of findings.json."""

    baselines: tuple[str, ...]
    differences: tuple[Unlike, ...]
    figures: tuple[FigureChange, ...]
    new: tuple[ComparedFinding, ...]  # findings of which no baseline had one by the same rule
    conditions: tuple[ConditionVerdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return to_json(self)


def compare_runs(
    before: Sequence[RecordedRun], now: RecordedRun, conditions: Sequence[FailCondition] = ()
) -> BaselineComparison:
    """Return how `now` compares with the runs `before`, at least one, and with `conditions`."""
    differences = tuple(one for run in before for one in unlike(run, now))
    figures = changed_figures(before, now, differences)
    new = tuple(_new(before, now))
    return BaselineComparison(
        baselines=tuple(run.name for run in before),
        differences=differences,
        figures=figures,
        new=new,
        conditions=tuple(
            _new_findings(condition, new, before, now, differences)
            if condition.name == NEW_FINDINGS
            else _judged(condition, figures, before, now)
            for condition in conditions
        ),
    )


def _judged(
    condition: FailCondition,
    figures: Sequence[FigureChange],
    before: Sequence[RecordedRun],
    now: RecordedRun,
) -> ConditionVerdict:
    """Judge a figure by its change."""
    figure = next(one for one in figures if one.name == condition.name)
    outcome, why = condition.outcome(figure.change), f"cannot be told: {figure.why}"
    if figure.change.interval is not None:
        why = f"{figure.shown(figure.now)}, {figure.shown(figure.before)} before: {figure.changed}"
        if outcome == "UNKNOWN":
            why = f"cannot be told: {why}; {_remedy(figure.change.widest, before, now)}"
    return ConditionVerdict(condition=condition.text, outcome=outcome, why=why)


def _remedy(widest: str, before: Sequence[RecordedRun], now: RecordedRun) -> str:
    """Return what makes an interval narrower, by what most of its width is due to."""
    if widest == "steps":
        return "its steps differ most; run longer: --time"
    if widest == "machine":
        run = max((*before, now), key=lambda run: run.facts.other_cores or 0.0)
        if not run.facts.other_cores:
            return "the machine itself had another speed; repeat both runs on one machine"
        busy = many(round(run.facts.other_cores, 1), "core")
        return f"other processes kept {busy} busy during {run.name}; repeat it without them"
    more = "give several runs as baselines" if len(before) == 1 else "give more runs as baselines"
    return f"equal runs may differ so much; {more}: --baseline A.json --baseline B.json"


def _new(before: Sequence[RecordedRun], now: RecordedRun) -> list[ComparedFinding]:
    """Return the findings by rules that said more than in any baseline.

    Lines and shares may have moved, so that findings are told apart by their rule alone.
    """
    had: Counter[str] = Counter()
    for run in before:
        had |= Counter(run.known)
    new = []
    for finding in now.findings:
        had[finding.rule] -= 1
        if had[finding.rule] < 0:
            new.append(finding)
    return new


def _new_findings(
    condition: FailCondition,
    new: Sequence[ComparedFinding],
    before: Sequence[RecordedRun],
    now: RecordedRun,
    differences: Sequence[Unlike],
) -> ConditionVerdict:
    """Judge the new findings of a severity, and those that a baseline had below it."""
    order = get_args(Severity)
    least = order.index(condition.level)
    loud = [finding for finding in now.findings if order.index(finding.severity) >= least]
    found = [one for one in loud if one in new]
    were = Counter(
        one.rule for run in before for one in run.findings if order.index(one.severity) >= least
    )
    grown = [one for one in loud if one not in new and not were[one.rule]]
    found += [one for one in grown if one.kind == "correctness"]  # its severity has no noise
    if not found and not grown:
        return ConditionVerdict(condition=condition.text, outcome="held", why="there is none")
    why = "; ".join(f"{one.rule}: {one.claim}" for one in (found or grown))
    if not found:
        why = f"cannot be told: a baseline had it below {condition.level}: {why}"
    elif other := reasons(differences, NEW):
        why, found = f"cannot be told: {other}, whose rules differ: {why}", []
    outcome: Outcome = "REGRESSED" if found else "UNKNOWN"
    return ConditionVerdict(condition=condition.text, outcome=outcome, why=why)
