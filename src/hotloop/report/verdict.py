"""The verdict of a diagnosis in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.case.case import OWN_FAULT
from hotloop.core.finding import WARN, by_share
from hotloop.report.excerpt import visible, where
from hotloop.report.sentences import (
    COMPUTE,
    at_most,
    ended,
    folder_of,
    is_loud,
    name,
    once,
    share_of,
)
from hotloop.rules.tried import in_words, of_row, share_of_run

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotloop.core.case.case import Case
    from hotloop.core.case.ledger import LedgerRow
    from hotloop.core.finding import Diagnosis, Finding, Severity

__all__ = ["ResultSentence", "verdict_of"]

_MOST_OF_IT = 0.5  # share of the time from which a line that nothing explains is told
_OF_OPERATORS = ("dead", "padding", "repeated", "frozen")  # only an experiment tells what they cost
_AVOID = {  # rows of the ledger that may lead a verdict
    "waiting for data": "is spent waiting for data",
    "dead": "goes into results that reach no loss, no weight and nothing that the script reads",
    "padding": "goes into positions that no loss depends on",
    "repeated": "goes into results that were computed before, from the same values",
    "frozen": "goes into results of weights that are not trained, computed again in each step",
    "evaluating": "goes into evaluation, beyond what is allowed for it",
    "saving": "goes into saving, beyond what is allowed for it",
    "logging": "goes into code that only reads values",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSentence:
    """The verdict of a diagnosis in one line."""

    said: str
    severity: Severity | None  # of the finding that it states; None: nothing is worth changing
    also: str | None = None  # a second sentence, such as the speed of an incorrect run


def verdict_of(case: Case, diagnosis: Diagnosis) -> ResultSentence:
    """Return the verdict in one line: an error, else a proved fault, else the largest cost.

    Notes, what was only read, and what is of the machine are not part of it.
    """
    worth = list(filter(is_loud, diagnosis.findings))
    wrong = next((finding for finding in worth if finding.is_proved_fault), None)
    slow = next((finding for finding in worth if not finding.is_proved_fault), None)
    script = name(case)
    if case.raised is not None and case.stopped is not None:
        also = _claim(worth[0]) if worth else None
        return ResultSentence(said=f"{script} {ended(case.raised)}", severity="critical", also=also)
    if wrong is not None:
        sentence = f"{script} does something else than it says: {_claim(wrong)}"
        also = f"its speed: {_promise(slow)}" if slow else None
        return ResultSentence(said=sentence, severity=wrong.severity, also=also)
    asked_for = {"evaluating" for finding in diagnosis.findings if finding.asked_for}
    if (row := _leading_row(case, slow, asked_for | case.seen_once)) is not None:
        experiment = of_row(case, row.name)
        is_same = slow and experiment and slow.measured == in_words(case, experiment)
        also = (
            f"the largest finding: {_claim(slow) if is_same else _promise(slow)}" if slow else None
        )
        severity = by_share(_share_of_row(case, row))
        return ResultSentence(said=f"{script}: {_of_row(case, row)}", severity=severity, also=also)
    if slow is not None:
        return ResultSentence(said=f"{script}: {_promise(slow)}", severity=slow.severity)
    if (hot := next(filter(_is_unexplained, diagnosis.findings), None)) is not None:
        place = f" ({where(hot.places[0], folder_of(case))})" if hot.places else ""
        script += f": no cost was measured, but {_claim(hot)}{place}: look at it"
        return ResultSentence(said=script, severity=None)
    if (open_row := _unmeasured(case)) is not None:
        script += f": no cost was measured, but {open_row}"
        return ResultSentence(said=script, severity=None)
    return ResultSentence(said=f"{script}: {_fine(case)}", severity=None)


def _is_unexplained(finding: Finding) -> bool:
    """Whether a finding may take most of the time, and nothing could be measured of it."""
    share = 1.0 if finding.rule[:3] == "H9 " and finding.share is None else finding.share or 0.0
    is_one = finding.rule.split()[0] in ("H9", "H19", "H25") and finding.measured is None
    return is_one and share >= _MOST_OF_IT


def _leading_row(case: Case, slow: Finding | None, no: Collection[str]) -> LedgerRow | None:
    """Return the avoidable row of the ledger that costs more than any finding explains, if any.

    Not one of `no`, nor one that an experiment refuted or showed to be needed, nor one of operators
    without an experiment that gained something.
    """
    known = case.ledger.avoidable if case.ledger else ()
    rows = [row for row in known if row.name not in no and _may_lead(case, row)]
    row = max(rows, key=lambda row: _share_of_row(case, row), default=None)
    least = max(WARN, (slow and slow.share) or 0.0)
    return row if row is not None and _share_of_row(case, row) >= least else None


def _may_lead(case: Case, row: LedgerRow) -> bool:
    experiment = of_row(case, row.name)
    outcome = experiment.outcome if experiment else "unknown"
    is_timed = row.name in _AVOID and row.name not in _OF_OPERATORS
    return _is_real(case, row) and (outcome == "gain" or (is_timed and outcome == "unknown"))


def _is_real(case: Case, row: LedgerRow) -> bool:
    experiment = of_row(case, row.name)
    is_full = row.name == "padding" and case.has_full_rows
    return row.name in _AVOID and not is_full and not (experiment and experiment.is_needed)


def _unmeasured(case: Case) -> str | None:
    """Return what is told of the largest row of operators on which no experiment had a result."""
    rows = [
        row
        for row in (case.ledger.avoidable if case.ledger else ())
        if row.name in _OF_OPERATORS and _is_real(case, row)
        if (made := of_row(case, row.name)) is None or made.outcome == "unknown"
    ]
    row = max(rows, key=lambda row: row.excess, default=None)
    return _of_row(case, row) if row and case.part(row.excess) >= WARN else None


def _share_of_row(case: Case, row: LedgerRow) -> float:
    """Return the share of the wall time that a row takes beyond its allowance, as measured."""
    experiment = of_row(case, row.name)
    excess = case.part(row.excess)
    if experiment is None or experiment.outcome == "unknown":
        return excess
    return max(0.0, share_of_run(case, experiment) - case.part(row.needed))


def _of_row(case: Case, row: LedgerRow) -> str:
    share, experiment = _share_of_row(case, row), of_row(case, row.name)
    line = experiment.places[0] if experiment and experiment.places else row.place
    place = "" if line is None else f" ({where(line, folder_of(case))})"
    gain = f"without it at most {1 / (1 - share):.1f}x" if share < 0.99 else "it is all there is"
    if experiment is not None and (measured := in_words(case, experiment)):
        gain = f"{gain} ({measured})" if experiment.outcome == "unknown" else measured
    return f"{share:.0%} of the wall time {_AVOID[row.name]}{place}: {gain}"


def _claim(finding: Finding) -> str:
    return visible(finding.claim).rstrip(". ")


def _promise(finding: Finding) -> str:
    """Return "93% of the wall time is waiting for data: fixing it can give at most 3.1x"."""
    claim, share = _claim(finding), share_of(finding)
    if share is not None and share not in claim:
        claim += f" ({share})"
    if finding.measured is not None:
        return f"{claim}: {visible(finding.measured)}"
    if tried := next((remedy.tried for remedy in finding.remedies if remedy.tried), None):
        return f"{claim}: {tried}"
    return claim if finding.ceiling is None else f"{claim}: fixing it can give {at_most(finding)}"


def _fine(case: Case) -> str:
    if any(OWN_FAULT in text for text in case.not_checked):
        return 'hotloop saw a part of the run only (see "not checked"), and found nothing there'
    if not case.steps.count:
        where = " in the main thread" if case.steps.how == "another thread" else ""
        return f"no optimizer step was seen{where}, so its speed could not be judged"
    if case.ledger is not None and (why := case.ledger.not_split) is not None:
        return f"no cost was found, but the operators of the steps were not seen: {why}"
    timed = [one for one in case.experiments if one.losses is None]
    if timed and all(one.outcome == "unknown" for one in timed):
        return "no cost was measured, but no experiment came to a result (see experiments)"
    compute = case.part(case.computing(*COMPUTE))
    sentence = f"nothing worth changing: compute takes {compute:.0%}"
    largest = max(case.wall.keys() - {*COMPUTE, *once(case)}, key=case.row, default="")
    return sentence + (
        f", {largest} {case.share(largest):.0%}" if case.share(largest) > compute else ""
    )
