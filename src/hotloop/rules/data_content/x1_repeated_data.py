"""One epoch reads the same data many times, or training data are in the evaluation.

Looks at: sampled rows of the batches, with all their fields: windows that overlap, rows twice in an
    epoch, and evaluation rows that the model was trained on before.
Says so when: each position is read twice an epoch or more (critical from four times on), 5 % of the
    rows are twice in an epoch, or 5 % of the evaluation rows are training rows (critical at 20 %).
    A note where another loader of the same part has rows of its own, or an evaluation reads the
    training data themselves. Before a run: it reads the data more than 4 times (a warning from 40
    times on), or rows stand twice in the training data, or in the validation data as well.
Stays silent when: the sampler may draw a row again (with replacement, without end, or the script's
    own), a stream is read, rows hold so little that they are equal by chance, the script
    evaluates its training data beside others, or windows are of numbers, such as a time series.
Remedy: windows side by side; rows once; a split before windows are cut.
Numbers: training: an epoch is another thing.
Seen: examples/slow/accelerate/pad_to_max.py, examples/slow/stride1_windows.
Source: three of the five projects (stride-1 windows, a text twice in a row, rows in both parts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Severity, SourceLocation, by_share
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit
from hotloop.rules.support.data_wait import place_of
from hotloop.rules.support.dataset_code import returned, windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.planned_run import (
        PlannedData,
        RepeatedLines,
        RowFacts,
        RunSettings,
        TextFacts,
    )
    from hotloop.core.case.steps_and_loaders import BatchFacts, Loader

__all__ = ["RULE"]

TIMES, MANY, ROWS, LEAK = 2.0, 4.0, 0.05, 0.20
ALL = 0.9  # share of its rows: such an evaluation reads the training data
# For planned runs. Up to 4 epochs of the same data are as good as new data, at 40 they teach
# nothing more: Muennighoff et al., "Scaling Data-Constrained Language Models", arXiv 2305.16264.
EPOCHS_NOTE, EPOCHS_WARN = 4, 40
LEAKED_NOTE, LEAKED_WARN = 0.01, 0.05  # of the validation rows or texts
REPEATED_NOTE, REPEATED_WARN = 0.10, 0.30  # of the training texts, or characters in long lines
COPIES = code_edit("take copies out of the rows")
LINES = code_edit("take repeated lines or files out of the text")


def judge(case: Case) -> Finding | None:
    """Judge windows first, then the split, then rows."""
    loaders = {loader.key: loader for loader in case.loaders}
    for check in (_overlap, _leak, _twice):
        for batch in case.batches:
            loader = loaders.get(batch.loader) if batch.loader is not None else None
            finding = check(case, batch, loader)
            if finding is not None:
                return finding
    return None


def _overlap(case: Case, batch: BatchFacts, loader: Loader | None) -> Finding | None:
    if batch.role != "train" or batch.overlap is None:
        return None
    times, span = _times(case, batch.overlap, loader)
    if times < TIMES:
        return None
    apart = f": windows are {batch.shifted} apart" if batch.shifted else ""
    return Finding(
        claim=f"{span} reads each position {times:.0f} times{apart}",
        severity="critical" if times >= MANY else "warn",
        places=_places(case, batch, loader, "__len__"),
        evidence={"rows of an epoch": f"{loader.length}"} if loader and loader.length else {},
        remedies=[
            code_edit(
                "windows side by side: len(data) // block_size of them in __len__, starting at"
                " i * block_size in __getitem__; overlap on purpose needs fewer epochs"
            )
        ],
    )


def _times(case: Case, overlap: float, loader: Loader | None) -> tuple[float, str]:
    """Return how often a position is read, and the span: an epoch, or a run that is shorter."""
    if loader is None or not loader.batches:
        return overlap, "one epoch"
    if loader.length and loader.batch_size:  # a sampler may draw fewer rows than exist
        overlap *= min(1.0, loader.batches * loader.batch_size / loader.length)
    batches = (case.total_steps or 0) * (case.steps.backwards or 1.0)
    if 0 < batches < loader.batches:
        return overlap * batches / loader.batches, "the run"
    return overlap, "one epoch"


def _leak(case: Case, batch: BatchFacts, loader: Loader | None) -> Finding | None:
    share = batch.in_evaluation
    if share is None or share < ROWS:
        return None
    others = [other.in_evaluation for other in case.batches if other is not batch]
    beside = any(other is not None and other < ROWS for other in others)
    same = batch.of_training and share >= ALL
    if beside and share >= ALL:
        return None  # the training data are evaluated on purpose
    claim, severity = f"{share:.0%} of the evaluation rows are training rows too", _severity(share)
    if same:
        claim = "the evaluation reads the training data themselves: of others it says nothing"
    if same or beside or _awaits(case):
        severity = "note"
    return Finding(
        claim=claim,
        severity=severity,
        places=_places(case, batch, loader, "__init__"),
        remedies=[
            code_edit("evaluate rows that are not trained on")
            if same
            else code_edit(
                "drop equal rows, then split, before windows are cut or rows are augmented"
            )
        ],
    )


def _severity(share: float) -> Severity:
    return "critical" if share >= LEAK else "warn"


def _awaits(case: Case) -> bool:
    """Whether another evaluation may follow: a stopped run did not use one of its loaders."""
    return case.stopped is not None and any(loader.role == "unused" for loader in case.loaders)


def _twice(case: Case, batch: BatchFacts, loader: Loader | None) -> Finding | None:
    share = batch.duplicated
    if batch.role != "train" or share is None or share < ROWS:
        return None
    if loader is None or not loader.once:
        return None  # the sampler may draw a row again
    beside = any(
        other.role == "train" and other is not batch and (other.duplicated or 0.0) < ROWS
        for other in case.batches
    )
    return Finding(
        claim=f"{share:.0%} of the rows came before in the same epoch",
        severity="note" if beside else by_share(share, warn=0.25, critical=0.5),
        places=_places(case, batch, loader, "__getitem__"),
        remedies=[
            Remedy(text="drop equal rows when the data are read, or say that they are weights")
        ],
    )


def _places(
    case: Case, batch: BatchFacts, loader: Loader | None, method: str
) -> list[SourceLocation]:
    """Return the lines of the data set, of the window cutting, of the batch and of the loader."""
    own = returned(case, loader.dataset, method) if loader else None
    places = [own, loader.getitem if loader else None, *windows(case)[:1], batch.place]
    return list(dict.fromkeys([place for place in places if place] + place_of(loader)))


def _before_run(case: Case, planned: PlannedRun) -> Iterator[Finding]:
    run, data = planned.settings, planned.data
    if run is None or data is None:
        return
    if run.epochs > EPOCHS_NOTE:
        yield _many_epochs(run, data)
    if data.text is not None:
        yield from _lines(data.text)
    if data.rows is not None:
        yield from _copies(data.rows)
        yield from _leaked(data, data.rows.leaked)


def _many_epochs(run: RunSettings, data: PlannedData) -> Finding:
    once, size = run.steps_per_epoch, f"{data.samples:,} {data.unit}"
    if data.text is not None:
        size = f"{data.text.train:,} characters, {size} of {data.text.context}"
    return Finding(
        claim=f"{run.steps:,} steps read the training {data.noun} {run.epochs:.4g} times: "
        f"once takes {once:,} step{'s' * (once > 1)}",
        severity="warn" if run.epochs > EPOCHS_WARN else "note",
        evidence={
            f"training {data.noun}": size,
            "threshold": f"up to {EPOCHS_NOTE} times are as good as new {data.noun}, by "
            f"{EPOCHS_WARN} it teaches nothing more (arXiv 2305.16264)",
        },
        remedies=[
            Remedy(text=f"training.max_steps={EPOCHS_NOTE * once} reads it {EPOCHS_NOTE} times"),
            Remedy(text="training.patience=5 stops when validation no longer improves"),
            Remedy(text=f"use more {data.noun}"),
        ],
    )


def _lines(text: TextFacts) -> Iterator[Finding]:
    long = f"in lines of {text.line} characters or more"
    again, leaked = text.repeated, text.leaked
    if again is not None and again.share >= REPEATED_NOTE:
        yield Finding(
            claim=f"{again.share:.0%} of the training text, {long}, has stood there before",
            severity="warn" if again.share >= REPEATED_WARN else "note",
            evidence=_example(text, again),
            remedies=[LINES],
        )
    if leaked is not None and leaked.share >= REPEATED_NOTE:
        yield Finding(
            claim=f"{leaked.share:.0%} of the validation text, {long}, stands in the training text "
            "as well: the validation loss is too good",
            severity="warn",
            evidence=_example(text, leaked),
            remedies=[LINES],
        )


def _example(text: TextFacts, lines: RepeatedLines) -> dict[str, str]:
    return {
        "most often": f"{lines.times}x {lines.most!r}",
        "looked at": f"the first {text.looked_at:,} of {text.train:,} training characters",
    }


def _copies(rows: RowFacts) -> Iterator[Finding]:
    share = rows.copies / rows.texts if rows.texts else 0.0
    if share < REPEATED_NOTE:
        return
    yield Finding(
        claim=f"{rows.copies:,} of {rows.texts:,} training texts ({share:.0%}) are copies of "
        "others",
        severity="warn" if share >= REPEATED_WARN else "note",
        remedies=[COPIES],
    )


def _leaked(data: PlannedData, share: float) -> Iterator[Finding]:
    if share < LEAKED_NOTE:
        return
    fault = "rows have the text of a training row: what is measured of them is too good"
    if data.kind == "answers":
        fault = "texts are training texts as well, question and answer: the validation loss is too"
        fault += " good"
    together = Remedy(text="data.group=KEY keeps rows together that belong together")
    yield Finding(
        claim=f"{share:.1%} of the validation {fault}",
        severity="warn" if share >= LEAKED_WARN else "note",
        remedies=[*[together] * (data.kind == "labels"), COPIES],
    )


RULE = Rule(
    title="The same data come many times",
    judge=judge,
    needs=(Needs.BATCHES,),
    before_run=_before_run,
    kind="correctness",
    known="proved",
)
