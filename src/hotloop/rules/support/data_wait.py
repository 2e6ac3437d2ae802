"""What a training loop waits for and what that costs: the facts that the data rules share."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy, SourceLocation, by_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Frame, Loader, Stack

__all__ = [
    "MATTERS",
    "costs",
    "feeding",
    "hottest",
    "item_seconds",
    "keep_samples",
    "lines",
    "place_of",
    "quantile",
    "rare",
    "read_ahead",
    "reader",
    "reading_seconds",
    "stacks_of",
    "steady",
    "unused_cores",
    "waits_for_data",
    "with_workers",
    "workers_for",
]

MATTERS = 0.05  # share of the wall time from which the wait for data is spoken of (rule D1)
_READERS = ("__getitem__", "__getitems__", "__iter__", "__next__")


def waits_for_data(case: Case) -> bool:
    """Whether the loop waits for data long enough to be spoken of, hand-made batches included."""
    return case.share("data wait") >= MATTERS


def feeding(case: Case) -> Loader | None:
    """Return what the training waited for longest; None where nothing was seen to feed it."""
    return max(case.training_loaders, key=lambda loader: sum(loader.waits), default=None)


def place_of(loader: Loader | None) -> list[SourceLocation]:
    """Return where the loader was built, as a list of one or none."""
    return [loader.place] if loader and loader.place else []


def item_seconds(loader: Loader) -> float | None:
    """Return what reading one sample takes in the loop's own process, median; None: unknown."""
    if loader.items:
        return statistics.median(loader.items)
    if loader.workers or not loader.waits or not loader.batch_size:
        return None
    return statistics.median(loader.waits) / loader.batch_size


def reading_seconds(case: Case, loader: Loader) -> float | None:
    """Return what reading samples took in the loop's own process in all; None: unknown.

    By the mean of the samples that were timed, and at most what the loop waited for data.
    """
    if loader.workers:
        return None
    wait = case.row("data wait")
    if not loader.items or not loader.batch_size:
        return wait
    batches = (case.steps.backwards or 1.0) * case.steps.count
    return min(wait, statistics.fmean(loader.items) * loader.batch_size * batches)


def steady(loader: Loader) -> list[float]:
    """Return the waits without the first of each epoch, in seconds."""
    first = Counter(loader.first_waits)
    kept = []
    for wait in loader.waits:
        if first[wait]:
            first[wait] -= 1
        else:
            kept.append(wait)
    return kept


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0..1) of them lie."""
    return sorted(values)[min(len(values) - 1, math.floor(part * len(values)))]


def rare(case: Case, loader: Loader) -> float:
    """Return how many batches of the run each entry of the loader's thinned `waits` stands for."""
    asked = (case.steps.backwards or 1.0) * case.steps.count
    return max(1.0, asked / len(loader.waits)) if loader.waits else 1.0


def unused_cores(case: Case) -> float | None:
    """Return the cores that this run, its workers included, did not keep busy; None: unknown."""
    used, cores = case.readings.get("cpu_cores"), case.hardware.cores
    return cores - statistics.median(used) if used and cores is not None else None


def workers_for(case: Case, loader: Loader) -> int:
    """Return a first guess of loader processes that hide the wait; 0: there is no core for one.

    As many as make a batch within the rest of a step, and one; a core is left to the loop.
    """
    spare = math.floor(case.hardware.cores or 1) - 1
    if loader.iterable and not loader.worker_info:  # a second one would read the same (rule D25)
        spare = min(spare, 1)
    if not loader.waits or not case.steps.wall:
        return max(0, min(spare, 2))
    batch = statistics.median(loader.waits) * max(1, loader.workers)
    rest = statistics.median(case.steps.wall) / (case.steps.backwards or 1) - batch
    return max(0, min(spare, math.ceil(batch / max(rest, batch / 64)) + 1))


def stacks_of(case: Case, row: str = "data wait") -> list[Stack]:
    """Return the sampled stacks of a row."""
    return [stack for stack in case.stacks if stack.row == row]


def lines(stacks: Iterable[Stack]) -> list[SourceLocation]:
    """Return the hottest line of a data set's reading function, then the hottest line below it."""
    reading: dict[SourceLocation, float] = defaultdict(float)
    stacks = list(stacks)
    for stack in stacks:
        frame = reader(stack)
        if frame is not None:
            reading[SourceLocation(file=frame.file, line=frame.line)] += stack.seconds
    first = [max(reading, key=reading.__getitem__)] if reading else []
    return list(dict.fromkeys([*first, *hottest(stacks)]))


def hottest(stacks: Iterable[Stack]) -> list[SourceLocation]:
    """Return the project's own innermost line with the most time, as a list of one or none."""
    inside: dict[SourceLocation, float] = defaultdict(float)
    for stack in stacks:
        if stack.place:
            inside[stack.place] += stack.seconds
    return [max(inside, key=inside.__getitem__)] if inside else []


def reader(stack: Stack) -> Frame | None:
    """Return the innermost of the project's frames that reads a sample: its __getitem__."""
    own = (frame for frame in stack.frames if frame.own)
    return next((f for f in own if f.function.rpartition(".")[2] in _READERS), None)


def keep_samples(loader: Loader | None) -> list[Remedy]:
    """Return the remedy that reads each sample once; none where reading draws random numbers."""
    if loader and (loader.uses_random or loader.iterable):
        return []
    return [
        Remedy(
            text="keep each sample in memory once it was read",
            effort="option",
            technique="sample-cache",
        )
    ]


def read_ahead(loader: Loader) -> list[Remedy]:
    """Return the remedy that reads in worker processes; none where the technique has no use.

    It leaves alone streams and what is cut from memory (rule D3); of who has workers already other
    rules speak (with_workers).
    """
    if loader.workers or loader.iterable or loader.in_memory:
        return []
    return [
        Remedy(
            text="read ahead in worker processes",
            effort="option",
            technique="loader-workers",
        )
    ]


def with_workers(
    case: Case, loader: Loader, text: str, *, count: int | None = None, pin: bool = False
) -> Remedy:
    """Return a remedy that sets the processes of a loader, or whether it pins what they make.

    It names the technique, but where that would be refused.
    """
    count = loader.workers if count is None else count
    streams = loader.iterable or loader.uses_random
    if streams or count > (case.hardware.cores or count):
        return Remedy(text=text)
    choice = f"count={count}" + ":pin=on" * pin
    return Remedy(text=text, effort="option", technique="loader-workers", choice=choice)


def costs(
    case: Case,
    rule: str,
    claim: str,
    seconds: float,
    *,
    places: Sequence[SourceLocation] = (),
    evidence: Mapping[str, str] | None = None,
    remedies: Sequence[Remedy],
) -> Finding:
    """Return a finding about `seconds` of the run, which are gone where the cause is."""
    share = case.part(seconds)
    return Finding(
        rule=rule,
        claim=claim,
        severity=by_share(share),
        share=share,
        saves=case.per_step(seconds),
        ceiling=case.ceiling_without(seconds),
        places=places,
        evidence=evidence or {},
        remedies=remedies,
    )
