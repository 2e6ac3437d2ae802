"""The sentences of a diagnosis that the terminal and the page share."""

from __future__ import annotations

import math
import os.path
import shlex
from collections import Counter
from typing import TYPE_CHECKING

from hotloop.core.case.case import ONCE
from hotloop.core.case.steps_and_loaders import ROWS
from hotloop.core.units import duration, moment
from hotloop.report.excerpt import visible, where
from hotloop.rules.tried import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.environment import Raised
    from hotloop.core.finding import Diagnosis, Finding
    from hotloop.core.measurement import Measurement

__all__ = [
    "MEANS",
    "WORDS",
    "at_most",
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
    "share_of",
    "speed",
]

MOST = 3  # findings that are shown unless all are asked for
WORDS = {"critical": "critical", "warn": "warning", "note": "note"}
COMPUTE = ("forward", "backward", "optimizer")
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


def name(case: Case) -> str:
    """Return the script's file name, or the module's name."""
    return visible(os.path.basename(case.script) or case.script)


def folder_of(case: Case) -> str:
    """Return the folder of the script; "." for a module."""
    return os.path.dirname(case.script) or "."


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


def share_of(finding: Finding) -> str | None:
    """Return "53% of the wall time", with the share of the whole cause if it is larger."""
    if finding.share is None:
        return None
    own = finding.share if finding.part is None else finding.part
    more = "" if finding.part is None else f", {finding.share:.0%} with the rest of its cause"
    return f"{own:.0%} of the wall time{more}"


def at_most(finding: Finding) -> str:
    """Return "at most 1.3x", the ceiling of a finding that has one."""
    assert finding.ceiling is not None
    return f"at most {finding.ceiling:.1f}x" if finding.ceiling < 99.5 else "at most 100x and more"


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
    if (share := share_of(finding)) is not None:
        phrases.append(share)
    if finding.measured is not None:
        phrases.append(visible(finding.measured))
    elif finding.ceiling is not None:
        phrases.append(at_most(finding))
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
    both_forms = {in_words(case, one) for one in case.experiments if one.rewrites}
    untried = "its form was timed" if finding.measured in both_forms else "not tried"
    for remedy in finding.remedies:
        id, use = remedy.technique, remedy.use
        line = None
        if id is not None and use is not None and id not in typed and can_be_typed(id, case):
            line = command(case, use, script)
            typed.add(id)
        effort = f" ({remedy.effort}; {remedy.tried or untried})"
        yield remedy.text + effort * (finding.kind != "machine"), line


def command(case: Case, use: str, script: str) -> str:
    """Return the command line that tries a technique, with its options."""
    if case.by_hotloop:  # hotloop's own command takes --with directly
        line = " ".join([case.script, *map(shlex.quote, case.arguments)])
        return visible(f"{line} --with {use}")
    is_file = case.script.endswith(".py") or os.path.sep in case.script
    words = [script, *case.arguments] if is_file else ["-m", script, *case.arguments]
    return visible(f"hotloop run --with {use} {shlex.join(words)}")
