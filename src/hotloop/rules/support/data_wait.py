"""Facts that the data rules share: what a training loop waits for, and the cost."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.rules.base import Case, Finding, Remedy, SourceLocation, option
from hotloop.rules.support.costs import costing, hottest
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.core.case.ledger import LedgerRow
    from hotloop.core.case.steps_and_loaders import Frame, Loader, Stack

__all__ = [
    "MATTERS",
    "by_hand",
    "costs",
    "feeding",
    "item_seconds",
    "keep_samples",
    "lines",
    "place_of",
    "quantile",
    "rare",
    "read_ahead",
    "read_by_workers",
    "reader",
    "reading_seconds",
    "reads_the_same",
    "stacks_of",
    "steady",
    "unused_cores",
    "waiting_seconds",
    "waits_for_data",
    "with_workers",
    "workers_for",
]

MATTERS = 0.05  # share of the wall time from which a wait for data is reported (rule D1)
_EQUAL = 0.9  # share of the sampled rows that are the same when they are read again
_READERS = ("__getitem__", "__getitems__", "__iter__", "__next__")


def waits_for_data(case: Case) -> bool:
    """Whether the wait for data, including batches made by the loop, is long enough to report."""
    return case.share("data wait") >= MATTERS


def waiting_seconds(case: Case) -> float:
    """Return the seconds of waiting for data, including batches made by the loop.

    Without a loader, a batch made between two calls of the model counts as part of the forward
    pass; the ledger knows the lines that make it.
    """
    rows = _by_hand(case)
    return max(case.row("data wait"), *(row.seconds for row in rows), 0.0)


def by_hand(case: Case) -> list[SourceLocation]:
    """Return the two lines that take most of making batches without a loader."""
    places = (line.place for row in _by_hand(case) for line in row.lines)
    return [place for place in dict.fromkeys(places) if place is not None][:2]


def _by_hand(case: Case) -> list[LedgerRow]:
    if case.ledger is None or feeding(case) is not None:
        return []
    return [row for row in case.ledger.rows if row.name == "waiting for data"]


def feeding(case: Case) -> Loader | None:
    """Return the training loader with the longest total wait; None without a loader."""
    return max(case.training_loaders, key=lambda loader: sum(loader.waits), default=None)


def place_of(loader: Loader | None) -> list[SourceLocation]:
    """Return where the loader was built, as a list with at most one place."""
    return [loader.place] if loader and loader.place else []


def read_by_workers(case: Case, loader: Loader | None) -> list[SourceLocation]:
    """Return where it is said what the workers of a loader read.

    That is the __getitem__ of the project, or the lines that build a data set of a library. Workers
    are processes of their own, whose stacks are not seen.
    """
    if loader is None or not loader.workers:
        return []
    if loader.getitem is not None:
        return [loader.getitem]
    built = parse(case.sources).calls(loader.dataset) if loader.dataset else ()
    return [module.place(call) for module, call in built]


def reads_the_same(loader: Loader) -> bool:
    """Whether sampled rows were equal when they were read again."""
    return (loader.repeats or 0.0) >= _EQUAL


def item_seconds(loader: Loader) -> float | None:
    """Return the median seconds to read a sample in the loop's own process; None: unknown."""
    if loader.items:
        return statistics.median(loader.items)
    if loader.workers or not loader.waits or not loader.batch_size:
        return None
    return statistics.median(loader.waits) / loader.batch_size


def reading_seconds(case: Case, loader: Loader) -> float | None:
    """Return the total seconds of reading samples in the loop's own process; None: unknown.

    Computed from the mean of the timed samples, and bounded by the wait for data.
    """
    if loader.workers:
        return None
    wait = case.row("data wait")
    if not loader.items or not loader.batch_size:
        return wait
    batches = (case.steps.backwards or 1.0) * case.steps.count
    return min(wait, statistics.fmean(loader.items) * loader.batch_size * batches)


def steady(loader: Loader) -> list[float]:
    """Return the waits in seconds, without the first one of each epoch."""
    first = Counter(loader.first_waits)
    waits = []
    for wait in loader.waits:
        if first[wait]:
            first[wait] -= 1
        else:
            waits.append(wait)
    return waits


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0..1) of the values lie."""
    return sorted(values)[min(len(values) - 1, math.floor(part * len(values)))]


def rare(case: Case, loader: Loader) -> float:
    """Return how many batches of the run each entry of the thinned `loader.waits` represents."""
    batches = (case.steps.backwards or 1.0) * case.steps.count
    return max(1.0, batches / len(loader.waits)) if loader.waits else 1.0


def unused_cores(case: Case) -> float | None:
    """Return the cores left idle by this run, including its workers; None: unknown."""
    used, cores = case.readings.get("cpu_cores"), case.hardware.cores
    return cores - statistics.median(used) if used and cores is not None else None


def workers_for(case: Case, loader: Loader) -> int:
    """Return a first guess of the workers that hide the wait; 0: no core is free for one.

    The guess is the number that makes a batch in the remaining time of a step, plus one; one core
    is reserved for the loop.
    """
    spare = math.floor(case.hardware.cores or 1) - 1
    if (
        loader.iterable and not loader.worker_info
    ):  # a second worker would read the same data (rule D25)
        spare = min(spare, 1)
    if not loader.waits or not case.steps.wall:
        return max(0, min(spare, 2))
    batch = statistics.median(loader.waits) * max(1, loader.workers)
    free = statistics.median(case.steps.wall) / (case.steps.backwards or 1) - batch
    return max(0, min(spare, math.ceil(batch / max(free, batch / 64)) + 1))


def stacks_of(case: Case, row: str = "data wait") -> list[Stack]:
    """Return the sampled stacks of a row, whose seconds are at most those of the row."""
    stacks = [stack for stack in case.stacks if stack.row == row]
    sampled = sum(stack.seconds for stack in stacks)
    if sampled <= case.row(row):
        return stacks
    return [replace(stack, seconds=stack.seconds * case.row(row) / sampled) for stack in stacks]


def lines(stacks: Iterable[Stack]) -> list[SourceLocation]:
    """Return the hottest line of the functions that read samples, and the hottest line below."""
    reading: dict[SourceLocation, float] = defaultdict(float)
    stacks = list(stacks)
    for stack in stacks:
        frame = reader(stack)
        if frame is not None:
            reading[SourceLocation(file=frame.file, line=frame.line)] += stack.seconds
    first = [max(reading, key=reading.__getitem__)] if reading else []
    return list(dict.fromkeys([*first, *hottest(stacks)[:1]]))


def reader(stack: Stack) -> Frame | None:
    """Return the innermost frame of the project that reads a sample, such as __getitem__."""
    own = (frame for frame in stack.frames if frame.own)
    return next((f for f in own if f.function.rpartition(".")[2] in _READERS), None)


def keep_samples(loader: Loader | None) -> list[Remedy]:
    """Return the remedy that reads each sample once; [] if reading draws random numbers."""
    if loader and (loader.uses_random or loader.iterable):
        return []
    return [option("keep each sample in memory once it was read", technique="sample-cache")]


def read_ahead(loader: Loader) -> list[Remedy]:
    """Return the remedy that reads in worker processes; [] if the technique does not apply.

    It does not apply to streams, to data in memory (rule D3), or to a loader that already has
    workers (see with_workers).
    """
    if loader.workers or loader.iterable or loader.in_memory:
        return []
    return [option("read ahead in worker processes", technique="loader-workers")]


def with_workers(
    case: Case, loader: Loader, text: str, *, count: int | None = None, pin: bool = False
) -> Remedy:
    """Return a remedy that sets the number of workers of a loader, or its pinning.

    It names the technique unless that would be refused.
    """
    count = loader.workers if count is None else count
    streams = loader.iterable or loader.uses_random
    if streams or count > (case.hardware.cores or count):
        return Remedy(text=text)
    choice = f"count={count}" + ":pin=on" * pin
    return option(text, technique="loader-workers", choice=choice)


def costs(case: Case, claim: str, seconds: float, **fields: Any) -> Finding | None:
    """Return a finding about `seconds` of the run, which are saved if the cause is removed."""
    return costing(case, seconds, least=0.0, claim=claim, **fields)
