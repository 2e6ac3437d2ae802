"""Attributes time by sampled stacks: splits gaps into rows, and rows into source lines."""

from __future__ import annotations

import bisect
import linecache
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from hotloop.core.case.steps_and_loaders import Stack
from hotloop.observe.hooks.stack_frames import is_own, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.observe.hooks.stack_sampler import Stack as Raw
    from hotloop.observe.hooks.stack_sampler import Stand
    from hotloop.observe.wall.wall_time import Folded

__all__ = ["split"]

KEPT = 300  # distinct stacks
_IDLE = 0.1  # largest share of CPU time between two samples of an idle thread
_COMPILING = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/")
_CALLING = "/torch/_dynamo/eval_frame.py"  # functions that are not compiled are called through it
_LOGGING = (
    "/tqdm/",
    "/wandb/",
    "/mlflow/",
    "/tensorboard/",
    "/matplotlib/",
    "/logging/__init__",
    "/rich/",
    "/loguru/",
    "/csv.py",
)
_READING = (
    "/datasets/",
    "/pandas/",
    "/pyarrow/",
    "/json/",
    "/csv.py",
    "/torchvision/",
    "/torchaudio/",
    "/PIL/",
    "/torch/utils/data/",
    "/sklearn/datasets",
    "/tokenizers/",
    "/gzip.py",
    "/zipfile",
)
_READS = ("open(", "read(", "load(", "read_text(", "loadtxt(", "readlines(", "from_csv(")
_PRINTS = ("print(", "logger.", "logging.", ".write(", "writerow(", "savefig(", "plt.", "pbar.")
_SAVES = ("np.save", "pickle.dump", "savez(", "save_pretrained(", "joblib.dump")
_BATCHES = ("batch", "sample", "fetch", "load", "data", "collate", "encode", "tokeni")


def split(
    folded: Folded, stands: Sequence[Stand], *, since: int
) -> tuple[dict[str, float], list[dict[str, float]], tuple[Stack, ...]]:
    """Return the rows of the whole run, those of each step, and the stacks with their seconds.

    `since` is the event buffer's start in the samples' nanoseconds. A row of `folded` that ends
    with ":" is divided in proportion to the samples in it; without samples it keeps its own name.
    """
    placed = _placed(folded, stands, since)
    shares: dict[str, Counter[str]] = defaultdict(Counter)
    for row, final, _ in placed:
        if row.endswith(":"):
            shares[row][final] += 1
    rows = _shared(folded.rows, shares)
    steps = [_shared(step, shares) for step in folded.steps]
    return rows, steps, _stacks(placed, rows)


def _placed(folded: Folded, stands: Sequence[Stand], since: int) -> list[tuple[str, str, Raw]]:
    """Return each sample's row in `folded`, its final row, and its stack."""
    starts = [start for start, _, _ in folded.pieces]
    placed, before = [], None
    for stand in stands:
        piece = bisect.bisect_right(starts, stand.at - since) - 1
        if piece < 0 or stand.at - since >= folded.pieces[piece][1]:
            continue
        row, final = folded.pieces[piece][2], folded.pieces[piece][2]
        if row.endswith(":"):
            final = _kind(row, stand.stack) if not _idle(before, stand) else "idle"
        placed.append((row, final, stand.stack))
        before = stand
    return placed


def _shared(rows: dict[str, float], shares: dict[str, Counter[str]]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for row, seconds in rows.items():
        counts = shares.get(row)
        if not counts:
            totals[row.rstrip(":")] += seconds
            continue
        for final, count in counts.items():
            totals[final] += seconds * count / counts.total()
    return dict(totals)


def _idle(before: Stand | None, now: Stand) -> bool:
    """Whether the thread slept since the previous sample, on the same stack."""
    if before is None or not now.cpu or before.stack is not now.stack:
        return False
    return now.cpu - before.cpu < _IDLE * (now.at - before.at)


def _kind(row: str, stack: Raw) -> str:
    """Return the row of a stack that was sampled in a gap of row `row`."""
    files = [code.co_filename for code, _ in stack]
    line, name = _own_line(stack)
    if row == "start:" and any(file.startswith("<frozen importlib") for file in files):
        return "import"
    if _any([file for file in files if not file.endswith(_CALLING)], _COMPILING):
        return "compile"
    if row == "start:":
        reads = _any(files, _READING) or any(word in line for word in _READS)
        return "data load" if reads else "start"
    if any(word in line for word in _SAVES):
        return "save"
    if _any(files, _LOGGING) or any(word in line for word in _PRINTS):
        return "log"
    makes = any(word in name.lower() for word in _BATCHES) or "/torch/utils/data/" in "".join(files)
    return "data wait" if row == "after step:" and makes else row.rstrip(":")


def _any(files: Iterable[str], fragments: Sequence[str]) -> bool:
    return any(fragment in file for file in files for fragment in fragments)


def _own_line(stack: Raw) -> tuple[str, str]:
    """Return the text of the innermost line of the project's own code, and its function."""
    for code, line in stack:
        if is_own(code.co_filename):
            return linecache.getline(code.co_filename, line or 0).strip(), code.co_name
    return "", ""


def _stacks(
    placed: Sequence[tuple[str, str, Raw]],
    rows: dict[str, float],
) -> tuple[Stack, ...]:
    """Return the KEPT most frequent stacks, each with its share of its row's seconds."""
    of_row = Counter(final.rstrip(":") for _, final, _ in placed)
    counts = Counter((final.rstrip(":"), stack) for _, final, stack in placed)
    return tuple(
        Stack(
            row=row,
            frames=shown(stack),
            samples=count,
            seconds=rows.get(row, 0.0) * count / of_row[row],
        )
        for (row, stack), count in counts.most_common(KEPT)
        if stack
    )
