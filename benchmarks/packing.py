"""P1: what it costs to pack 1,000,000 lengths into rows of 2048, and what padding is left.

python -m benchmarks.packing [--rounds N] [--only TEXT] [--busy] [--quick]

Lengths are lognormal with mean 180 and sigma 1, cut to 1..2048. The floor sorts them. CPU time is
of this process, one thread. TRL packs token ids, of one byte each here, and moves them into their
rows; hotloop's rows and batches are places in the data. The batches are those of one epoch with the
defaults, for 16 rows where a number is asked for.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.measure import Bench, Goal, interleave, options
from hotloop.data.sampling.length_buckets import BUDGET, bucketed, by_budget
from hotloop.data.statistics.padding_strategies import strategies
from hotloop.data.tokenising.packing import best_fit, waste

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Lengths = NDArray[np.int64]

DOCUMENTS, MEAN, SIGMA, CAPACITY, BATCH = 1_000_000, 180, 1.0, 2048, 16
CPU, PADDING = "cpu s", "padding %"
FLOOR, HOT = "np.sort of the lengths", "hotloop best fit"
BUDGETED, BUCKETED = f"hotloop batches of {BUDGET:,} tokens", f"hotloop bucketed, {BATCH} rows"
TRL, TRL_WHOLE = "TRL bfd", "TRL bfd, one map batch"
PEER_ROUNDS = 3  # a reading takes half a minute
GOALS = [
    Goal(text="best fit in at most 0.1 s", row=HOT, quantity=CPU, limit=0.1),
    Goal(text="packed rows: at most 0.01 % of padding", row=HOT, quantity=PADDING, limit=0.01),
    Goal(
        text="batches by budget: at most 4.7 % of padding",
        row=BUDGETED,
        quantity=PADDING,
        limit=4.7,
    ),
]


def drawn(count: int) -> Lengths:
    """Return the lengths, [count]."""
    draw = np.random.default_rng(0).lognormal(np.log(MEAN) - SIGMA**2 / 2, SIGMA, count)
    return np.clip(np.rint(draw), 1, CAPACITY).astype(np.int64)


def one_at_a_time(lengths: Lengths) -> int:
    """Return the rows of best-fit decreasing, one document after another."""
    rooms: list[int] = []  # of the open rows, ascending
    rows = 0
    for length in np.sort(lengths)[::-1].tolist():
        at = bisect_left(rooms, length)
        room = rooms.pop(at) if at < len(rooms) else CAPACITY
        rows += room == CAPACITY
        if room > length:
            insort(rooms, room - length)
    return rows


def timed(work: Callable[[], float | None]) -> Callable[[], dict[str, float]]:
    """Return what does the work once and times it; the work says what share is padding."""

    def once() -> dict[str, float]:
        began = time.process_time()
        share = work()
        reading = {CPU: time.process_time() - began}
        return reading if share is None else {**reading, PADDING: 100 * share}

    return once


def sort(lengths: Lengths) -> None:
    """Sort a copy."""
    np.sort(lengths)


def pack(lengths: Lengths) -> float:
    """Pack and return the waste."""
    return waste(lengths, len(best_fit(lengths, CAPACITY)), CAPACITY)


def trl(lengths: Lengths, **how: Any) -> Callable[[], float]:
    """Return what packs a data set of documents of these lengths with TRL."""
    import datasets
    import pyarrow
    from trl.data_utils import pack_dataset

    datasets.disable_progress_bars()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    tokens = pyarrow.array(np.zeros(offsets[-1], dtype=np.int8))
    column = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), tokens)
    data = datasets.Dataset(pyarrow.table({"input_ids": column}))
    kept = {"keep_in_memory": True, "load_from_cache_file": False, **how}

    def work() -> float:
        packed = pack_dataset(data, CAPACITY, strategy="bfd", map_kwargs=kept)
        return waste(lengths, len(packed), CAPACITY)

    return work


def main(argv: Sequence[str] | None = None) -> None:
    """Take readings by turns, the slow peers after the others."""
    chosen = options(argv, __doc__ or "")
    torch.set_num_threads(1)
    lengths = drawn(2_000 if chosen.quick else DOCUMENTS)
    bench = Bench(
        name="packing",
        title=f"P1 {len(lengths):,} lengths, lognormal mean {MEAN}, into rows of {CAPACITY}",
        options=chosen,
        base=FLOOR,
        quantities=(CPU, PADDING),
        peers=(TRL, TRL_WHOLE),
        goals=GOALS,
    )
    bench.begin()
    fast: dict[str, Callable[[], Callable[[], float | None]]] = {
        FLOOR: lambda: partial(sort, lengths),
        HOT: lambda: partial(pack, lengths),
        BUDGETED: lambda: lambda: by_budget(lengths, seed=0, epoch=0).padding(lengths),
        BUCKETED: lambda: lambda: bucketed(lengths, BATCH, seed=0, epoch=0).padding(lengths),
    }
    slow: dict[str, Callable[[], Callable[[], float | None]]] = {
        TRL: lambda: trl(lengths),
        TRL_WHOLE: lambda: trl(lengths, batch_size=len(lengths)),
    }
    readings = {}
    for makers, rounds, warm in ((fast, chosen.rounds, 2), (slow, PEER_ROUNDS, 0)):
        rows = {name: timed(work) for name, work in bench.gather(makers).items()}
        readings |= interleave(rows, rounds=min(rounds, chosen.rounds), warm=warm)
    bench.notes += notes(lengths)
    bench.conclude(readings)


def notes(lengths: Lengths) -> list[str]:
    """Say whether the rows are as few as can be told, and what other strategies leave."""
    rows, expected = len(best_fit(lengths, CAPACITY)), one_at_a_time(lengths)
    same = "as many" if rows == expected else f"DIFFER from {expected:,}"
    found = strategies(lengths, batch=BATCH, longest=CAPACITY)
    shares = ", ".join(
        f"{name} {100 * one.share:.2f} % in {one.batches:,} batches" for name, one in found.items()
    )
    return [
        f"best fit: {rows:,} rows, {same} as when each document is placed by itself",
        f"padding with {BATCH} rows of up to {CAPACITY}: {shares}",
    ]


if __name__ == "__main__":
    main()
