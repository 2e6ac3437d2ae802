"""D1: what it costs to feed one batch of 16 x 1024 tokens that were tokenised before.

python -m benchmarks.feeding [--rounds N] [--only TEXT] [--busy] [--quick]

Every row yields inputs and targets as int64 from the same tokens in random order. The floor casts
rows that lie in the cache already. CPU time is of this process: what workers use is not in it.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from benchmarks.measure import Bench, Goal, interleave, options
from hotloop.data.sampling.context_windows import Windows
from hotloop.jobs.job import prepare_data
from hotloop.jobs.request import fresh_request
from hotloop.jobs.train import silent
from hotloop.session.accumulation_windows import AccumulationWindows, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Tokens = NDArray[np.uint16]

ROWS, CONTEXT = 16, 1024
BATCHES = 200  # to a reading
CPU, WALL = "cpu us/batch", "wall us/batch"
FLOOR, HOT, ARROW = "copy hot rows and cast", "hotloop", "datasets + DataLoader"
MAPPED = "memmap Dataset + DataLoader"
LISTS, LITDATA = "HF default, Python lists", "litdata"
FEWER = {LISTS: 10, FLOOR: 1000}
PEERS = (f"{MAPPED}, 2 workers", ARROW, f"{ARROW}, 2 workers", LISTS, LITDATA)
GOALS = [
    Goal(text="hotloop at most 5x the hot copy", row=HOT, quantity=CPU, against=FLOOR, limit=5),
    Goal(
        text="hotloop at most a 15th of datasets + DataLoader",
        row=HOT,
        quantity=CPU,
        against=ARROW,
        limit=1 / 15,
    ),
]


def hot_copy(tokens: Tokens) -> Iterator[object]:
    """Cast the same rows into the same memory, over and over."""
    rows = tokens[: ROWS * (CONTEXT + 1)].reshape(ROWS, CONTEXT + 1).copy()
    target = np.empty(rows.shape, dtype=np.int64)
    while True:
        np.copyto(target, rows)
        yield target


def hotloop(tokens: Tokens) -> Iterator[object]:
    """Take optimizer steps' windows from the engine's feed."""
    windows = Windows(tokens, tokens_fingerprint="", context=CONTEXT, seed=1, shuffle=True)
    feed, at = AccumulationWindows(samples=windows, batch_size=ROWS, drop_last=True), Position()
    while True:
        yield feed.window(at, ROWS)
        at = feed.after(at)


def get_batch(path: Path) -> Iterator[object]:
    """Stack random slices of a memmap that is opened for each batch, as nanoGPT does."""
    while True:
        data = np.memmap(path, dtype=np.uint16, mode="r")
        starts = torch.randint(len(data) - CONTEXT, (ROWS,)).tolist()
        slices = [data[at : at + CONTEXT + 1].astype(np.int64) for at in starts]
        inputs = torch.stack([torch.from_numpy(one[:-1]) for one in slices])
        yield inputs, torch.stack([torch.from_numpy(one[1:]) for one in slices])


class Mapped(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A map-style data set over a memmap, as people write it."""

    def __init__(self, path: Path) -> None:
        self._data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self) -> int:
        return (len(self._data) - 1) // CONTEXT

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = number * CONTEXT
        row = torch.from_numpy(self._data[first : first + CONTEXT + 1].astype(np.int64))
        return row[:-1], row[1:]


def loaded(data: Any, workers: int, **more: Any) -> Iterator[object]:
    """Yield shuffled batches of a DataLoader without an end."""
    endless = RandomSampler(data, replacement=True, num_samples=10**8)
    return iter(DataLoader(data, batch_size=ROWS, sampler=endless, num_workers=workers, **more))


def arrow(tokens: Tokens, folder: Path, columns: Sequence[str]) -> Any:
    """Return a `datasets` set on disk with those columns, all of the same tokens."""
    import datasets

    datasets.disable_progress_bars()
    length = CONTEXT + (len(columns) == 1)  # one column holds inputs and targets
    count = len(tokens) // length
    rows = list(tokens[: count * length].reshape(count, length).astype(np.int64))
    datasets.Dataset.from_dict(dict.fromkeys(columns, rows)).save_to_disk(folder)
    return datasets.load_from_disk(folder)


def python_lists(data: Any) -> Iterator[object]:
    """Collate lists of Python's integers with what HF Trainer uses when it is told nothing."""
    from transformers import default_data_collator

    return loaded(data, 0, collate_fn=default_data_collator)


def whole(path: str) -> Iterator[torch.Tensor]:
    """Yield all tokens of a file: litdata cuts them into blocks itself."""
    yield torch.from_numpy(np.fromfile(path, dtype=np.uint16))


def litdata(path: Path, folder: Path) -> Iterator[object]:
    """Stream shuffled blocks of tokens from litdata's own chunks."""
    from litdata import StreamingDataset, TokensLoader, optimize

    optimize(
        whole,
        inputs=[str(path)],
        output_dir=str(folder),
        chunk_bytes="64MB",
        num_workers=1,
        item_loader=TokensLoader(),
        verbose=False,
    )
    data = StreamingDataset(
        str(folder), item_loader=TokensLoader(CONTEXT + 1), shuffle=True, drop_last=True
    )
    while True:
        for batch in DataLoader(data, batch_size=ROWS):
            block = batch.long()
            yield block[:, :-1], block[:, 1:]


def timed(batches: Iterator[object], count: int) -> Callable[[], dict[str, float]]:
    """Return what takes `count` batches and times them."""

    def once() -> dict[str, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            next(batches)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {CPU: cpu / count * 1e6, WALL: wall / count * 1e6}

    return once


def begun(make: Callable[[], Iterator[object]]) -> Callable[[], Iterator[object]]:
    """Return what makes batches and takes the first one: what is missing shows then."""

    def begin() -> Iterator[object]:
        batches = make()
        next(batches)
        return batches

    return begin


def feeders(tokens: Tokens, path: Path, folder: Path) -> dict[str, Callable[[], Iterator[object]]]:
    """Return what makes each row's batches."""

    def column(workers: int) -> Iterator[object]:
        data = arrow(tokens, folder / f"column-{workers}", ["tokens"]).with_format("torch")
        for batch in loaded(data, workers):
            yield batch["tokens"][:, :-1], batch["tokens"][:, 1:]

    def lists() -> Iterator[object]:
        return python_lists(arrow(tokens, folder / "lists", ["input_ids", "labels"]))

    return {
        FLOOR: lambda: hot_copy(tokens),
        HOT: lambda: hotloop(tokens),
        "nanoGPT-like get_batch": lambda: get_batch(path),
        MAPPED: lambda: loaded(Mapped(path), 0),
        f"{MAPPED}, 2 workers": lambda: loaded(Mapped(path), 2),
        ARROW: lambda: column(0),
        f"{ARROW}, 2 workers": lambda: column(2),
        LISTS: lists,
        LITDATA: lambda: litdata(path, folder / "litdata"),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Take batches by turns."""
    chosen = options(argv, __doc__ or "")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the peers
    length = 100_000 if chosen.quick else 8_000_000
    text = prepare_data(fresh_request("char-lm", [f"data.max_chars={length}"]), silent, None)
    bench = Bench(
        name="feeding",
        title=f"D1 one batch of {ROWS} x {CONTEXT} from {len(text.train):,} tokens on disk",
        options=chosen,
        base=FLOOR,
        quantities=(CPU, WALL),
        peers=PEERS,
        goals=GOALS,
    )
    bench.begin()
    with tempfile.TemporaryDirectory() as folder:
        makers = feeders(text.train, text.folder / "train.bin", Path(folder))
        with contextlib.redirect_stdout(io.StringIO()):
            batches = bench.gather({name: begun(make) for name, make in makers.items()})
        most = 5 if chosen.quick else 1000
        rows = {n: timed(b, min(most, FEWER.get(n, BATCHES))) for n, b in batches.items()}
        bench.conclude(interleave(rows, rounds=chosen.rounds))


if __name__ == "__main__":
    main()
