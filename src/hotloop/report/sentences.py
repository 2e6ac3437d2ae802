"""The sentences of a diagnosis that the terminal and the page share."""

from __future__ import annotations

import math
import os.path
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.case.case import ONCE, OWN_FAULT
from hotloop.core.case.steps_and_loaders import ROWS
from hotloop.core.finding import WARN, by_share
from hotloop.core.units import duration, moment
from hotloop.report.excerpt import visible, where
from hotloop.rules.tried import in_words, of_row, share_of_run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.environment import Raised
    from hotloop.core.case.ledger import LedgerRow
    from hotloop.core.finding import Diagnosis, Finding, Severity
    from hotloop.core.measurement import Measurement

__all__ = [
    "MEANS",
    "WORDS",
    "ResultSentence",
    "command",
    "cost",
    "counted",
    "ended",
    "experiments",
    "folder_of",
    "is_loud",
    "leading",
    "name",
    "observed",
    "once",
    "others",
    "pace",
    "reading",
    "refuted",
    "remedies",
    "rows",
    "speed",
    "verdict",
]

_MOST_OF_IT = 0.5  # share of the time from which a line that nothing explains is told
MOST = 3  # findings that are shown unless all are asked for
WORDS = {"critical": "critical", "warn": "warning", "note": "note"}
COMPUTE = ("forward", "backward", "optimizer")
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
MEANS = {
    "start": "Python, and the script's code before its first step",
    "import": "loading modules",
    "data load": "reading data before the first step",
    "compile": "compiling the model",
    "data wait": "the loop waits for a batch",
    "prepare": "from the batch to the forward pass",
    "host to device": "copies to the GPU",
    "forward": "the forward pass and the loss",
    "backward": "the backward pass",
    "exchange": "waiting for the other processes, and what travels between them",
    "optimizer": "the update, clipping and the scaler",
    "host waits": "the host waits for a result of the GPU",
    "after step": "from the update to the next batch",
    "evaluate": "evaluation loops",
    "save": "writing checkpoints",
    "log": "printing, progress bars, trackers, plots",
    "idle": "sleeping",
    "after training": "from the last step to the end of the script",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSentence:
    """The verdict of a diagnosis in one line."""

    said: str
    severity: Severity | None  # of the finding that it states; None: nothing is worth changing
    also: str | None = None  # a second sentence, such as the speed of an incorrect run


def name(case: Case) -> str:
    """Return the script's file name, or the module's name."""
    return visible(os.path.basename(case.script) or case.script)


def folder_of(case: Case) -> str:
    """Return the folder of the script; "." for a module."""
    return os.path.dirname(case.script) or "."


def verdict(case: Case, diagnosis: Diagnosis) -> ResultSentence:
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
    if (row := _leading_row(case, slow, asked_for)) is not None:
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
    return ResultSentence(said=f"{script}: {_fine(case)}", severity=None)


def _is_unexplained(finding: Finding) -> bool:
    """Whether a finding takes most of the time, and no experiment can be made on it."""
    is_one = finding.rule[:4] in ("H19 ", "H25 ") and finding.measured is None
    return is_one and (finding.share or 0.0) >= _MOST_OF_IT


def is_loud(finding: Finding) -> bool:
    """Whether a finding is above a note."""
    return finding.severity != "note" and finding.known != "read"


def leading(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that are shown first: the first three above a note."""
    return list(filter(is_loud, findings))[:MOST]


def others(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that `leading` leaves out."""
    seen = 0
    rest: list[Finding] = []
    for finding in findings:
        if is_loud(finding) and seen < MOST:
            seen += 1
        else:
            rest.append(finding)
    return rest


def _leading_row(case: Case, slow: Finding | None, no: Collection[str]) -> LedgerRow | None:
    """Return the avoidable row of the ledger that costs more than any finding explains, if any.

    Not one of `no`, nor one that an experiment refuted or showed to be needed. Padding leads
    without an experiment only where none could be made and it is a critical cost.
    """
    known = case.ledger.avoidable if case.ledger else ()
    rows = [row for row in known if row.name not in no and _may_lead(case, row)]
    row = max(rows, key=lambda row: _share_of_row(case, row), default=None)
    least = max(WARN, (slow and slow.share) or 0.0)
    return row if row is not None and _share_of_row(case, row) >= least else None


def _may_lead(case: Case, row: LedgerRow) -> bool:
    experiment = of_row(case, row.name)
    outcome = experiment.outcome if experiment else "unknown"
    is_open = outcome == "unknown" and not (experiment and experiment.is_needed)
    if row.name == "padding":  # what it costs depends on the model: no experiment could be made
        was_made = experiment is not None and experiment.gain is not None
        is_open &= not was_made and by_share(_share_of_row(case, row)) == "critical"
    is_real = row.name in _AVOID and not (row.name == "padding" and case.has_full_rows)
    return is_real and (is_open or outcome == "gain")


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


def experiments(case: Case) -> list[str]:
    """Return one sentence for each experiment."""
    lines = []
    for experiment in case.experiments:
        about = [experiment.row or experiment.name]
        if experiment.places:
            about.append(where(experiment.places[0], folder_of(case)))
        proof = f"; {experiment.proof}" if experiment.proof else ""
        lines.append(visible(f"{', '.join(about)}: {in_words(case, experiment)}{proof}"))
    return lines


def refuted(diagnosis: Diagnosis) -> list[str]:
    """Return one sentence for each finding that an experiment refuted."""
    return [visible(f"{f.rule}: {f.claim}: {f.measured}") for f in diagnosis.refuted]


def ended(raised: Raised) -> str:
    """Return the exception that ended a script, with file and line."""
    place = raised.place
    where = "" if place is None else f" ({os.path.basename(place.file)}:{place.line})"
    word = "ended with" if raised.kind == "SystemExit" else "raised"
    message = raised.text if raised.kind == "SystemExit" else raised.said
    return visible(f"{word} {message}{where}")


def _claim(finding: Finding) -> str:
    return visible(finding.claim).rstrip(". ")


def _promise(finding: Finding) -> str:
    """Return "93% of the wall time is waiting for data: fixing it can give at most 3.1x"."""
    claim, share = _claim(finding), _share(finding)
    if share is not None and share not in claim:
        claim += f" ({share})"
    if finding.measured is not None:
        return f"{claim}: {visible(finding.measured)}"
    if tried := next((remedy.tried for remedy in finding.remedies if remedy.tried), None):
        return f"{claim}: {tried}"
    return claim if finding.ceiling is None else f"{claim}: fixing it can give {_most(finding)}"


def _share(finding: Finding) -> str | None:
    """Return "53% of the wall time", with the share of the whole cause if it is larger."""
    if finding.share is None:
        return None
    own = finding.share if finding.part is None else finding.part
    more = "" if finding.part is None else f", {finding.share:.0%} with the rest of its cause"
    return f"{own:.0%} of the wall time{more}"


def _most(finding: Finding) -> str:
    assert finding.ceiling is not None
    return f"at most {finding.ceiling:.1f}x" if finding.ceiling < 99.5 else "at most 100x and more"


def _fine(case: Case) -> str:
    if any(OWN_FAULT in text for text in case.not_checked):
        return 'hotloop saw a part of the run only (see "not checked"), and found nothing there'
    if not case.steps.count:
        where = " in the main thread" if case.steps.how == "another thread" else ""
        return f"no optimizer step was seen{where}, so its speed could not be judged"
    if case.ledger is not None and (why := case.ledger.not_split) is not None:
        return f"no cost was found, but the operators of the steps were not seen: {why}"
    if case.experiments and all(one.outcome == "unknown" for one in case.experiments):
        return "no cost was measured, but no experiment came to a result (see experiments)"
    compute = case.part(case.computing(*COMPUTE))
    sentence = f"nothing worth changing: compute takes {compute:.0%}"
    largest = max(case.wall.keys() - {*COMPUTE, *once(case)}, key=case.row, default="")
    return sentence + (
        f", {largest} {case.share(largest):.0%}" if case.share(largest) > compute else ""
    )


def counted(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each severity."""
    counts = Counter(WORDS[finding.severity] for finding in findings)
    phrases = [
        f"{counts[word]} {word}{'s' * (counts[word] > 1 and word != 'critical')}"
        for word in WORDS.values()
        if counts[word]
    ]
    return ", ".join(phrases) or "no findings"


def rows(case: Case) -> dict[str, float]:
    """Return the seconds of each nonzero row, in the order of a step."""
    order = {row: place for place, row in enumerate(ROWS)}
    ordered = sorted(case.wall, key=lambda row: order.get(row, len(order)))
    return {row: case.wall[row] for row in ordered if case.wall[row] > 0}


def once(case: Case) -> dict[str, float]:
    """Return the rows that shares leave out: the one-time rows of a run stopped early."""
    if case.judged == case.seconds:
        return {}
    return {row: seconds for row, seconds in rows(case).items() if row in ONCE}


def observed(case: Case) -> str:
    """Return how many steps were observed, why the run stopped, and for how long it ran."""
    # A run that reached its end has a known step count, whatever its loops planned.
    steps, planned = case.steps.count, case.planned_steps if case.stopped else None
    many = f"{steps:,}" if planned is None else f"{steps:,} of {planned:,}"
    unit = "step" if steps == 1 and planned is None else "steps"
    word = "stopped" if case.raised is None else "ended"
    ending = f"{word} after {many} {unit}: {case.stopped}"
    if case.stopped is None:
        ending = f"ran to its end: {many} {unit}"
    seconds, own = case.seconds, case.own_time
    took = case.experiments_time
    later = f"; experiments took {duration(took)} more" if took else ""
    return (
        f"{visible(ending)}; observed {duration(seconds)} of {duration(seconds + own)}, "
        f"hotloop's own {duration(own)} in no row{later}"
    )


def pace(case: Case) -> str:
    """Return steps per second, with the number of readings and their spread."""
    time = case.step_time
    if time is None or not time.median > 0 or not math.isfinite(time.median):
        return "steps/s unknown: no step was timed"
    return f"{speed(time)} ({reading(time)}; evaluation and saving left out)"


def speed(step_time: Measurement) -> str:
    """Return steps per second in three digits; the median step time must be above 0."""
    rate = float(f"{1 / step_time.median:.3g}")
    return f"{rate:,.0f} steps/s" if rate >= 1000 else f"{rate:.3g} steps/s"


def reading(evidence: Measurement | str) -> str:
    """Return evidence in one line; a measurement as median, unit, n, spread and source."""
    if isinstance(evidence, str):
        return visible(evidence)
    middle = f"{evidence.median:.4g} {visible(evidence.unit)}".rstrip()
    if evidence.unit == "s" and evidence.median > 0 and math.isfinite(evidence.median):
        middle = moment(evidence.median)
    spread = "" if evidence.spread is None else f", spread {evidence.spread:.0%}"
    source = "" if evidence.source == "measured" else f", {evidence.source}"
    return f"{middle}, n={evidence.n:,}{spread}{source}"


def cost(finding: Finding) -> list[str]:
    """Return the known cost, gain and effort of a finding, one phrase each."""
    phrases = []
    if finding.is_correctness:
        phrases.append("the run is not what it says")
    if (share := _share(finding)) is not None:
        phrases.append(share)
    if finding.measured is not None:
        phrases.append(visible(finding.measured))
    elif finding.ceiling is not None:
        phrases.append(_most(finding))
    if finding.saves is not None and finding.saves > 0:
        phrases.append(f"saves at most {moment(finding.saves)} a step")
    if finding.effort is not None and finding.kind != "machine":
        phrases.append(f"effort: {finding.effort}")
    return phrases


def remedies(case: Case, finding: Finding, script: str) -> Iterator[tuple[str, str | None]]:
    """Yield each remedy with its result where it was tried, and the command that tries it.

    The command is None the second time, and where `hotloop run` would refuse it.
    """
    from hotloop.techniques.script_gate import can_be_typed  # it loads all rules

    typed: set[str] = set()
    for remedy in finding.remedies:
        id, use = remedy.technique, remedy.use
        line = None
        if id is not None and use is not None and id not in typed and can_be_typed(id, case):
            line = command(case, use, script)
            typed.add(id)
        effort = f" ({remedy.effort}; {remedy.tried or 'not tried'})"
        yield remedy.text + effort * (finding.kind != "machine"), line


def command(case: Case, use: str, script: str) -> str:
    """Return the command line that tries a technique, with its options."""
    if case.by_hotloop:  # hotloop's own command takes --with directly
        line = " ".join([case.script, *map(shlex.quote, case.arguments)])
        return visible(f"{line} --with {use}")
    is_file = case.script.endswith(".py") or os.path.sep in case.script
    words = [script, *case.arguments] if is_file else ["-m", script, *case.arguments]
    return visible(f"hotloop run --with {use} {shlex.join(words)}")
