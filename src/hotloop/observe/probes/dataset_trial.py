"""Reads a DataLoader's samples in a forked child, to learn the effects of reading.

The child reads the samples that the loader would read first. It advances its own generators, opens
its own files and fills its own caches, so this process stays as it is. The result comes back as
JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.describe import nbytes
from hotloop.observe.probes.equality import equal, marks
from hotloop.observe.probes.file_offsets import offsets, put_back, shifted
from hotloop.observe.probes.rng_streams import moved, positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Tried", "alive", "can_fork", "forked", "in_child", "receive", "try_reading"]

LIMIT = 30.0  # seconds without a sign of life until a child is killed; opening data may take long
READING = 1.0  # seconds of reading, or one batch of samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The effects of reading the first samples."""

    samples: int  # read, each of them twice
    batch: int  # samples of the first batch
    moved: tuple[str, ...] = ()  # generators that reading or collating advanced
    ahead: tuple[str, ...] = ()  # generators that the sampler advances after its first batch
    equal: bool = True  # both reads of every sample gave equal values
    same: bool | None = True  # so did both batches, the second as in a worker; None: unknown
    keeps: bool = False  # reading changes the data set: a cache, an open file
    changes: bool = False  # reading the same samples again changes it again
    shares: bool = False  # two reads of a batch share memory: writes show in both
    views: bool = False  # each read of a sample gives the same memory
    seeks: bool = False  # reading moves the position of a file that was open before
    sample_bytes: int = 0
    unsent: str | None = None  # why a batch cannot be sent between processes
    unpinned: str | None = None  # why a batch cannot be put into pinned memory


def can_fork() -> bool:
    """Whether loader workers can be forked from this process."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def try_reading(loader: Any) -> Tried | str:
    """Read the first batch of a map-style loader in a child; return a text if that fails."""
    answer = in_child(lambda: _read(loader))
    if isinstance(answer, str):
        return answer
    return Tried(**{**answer, "moved": tuple(answer["moved"]), "ahead": tuple(answer["ahead"])})


def in_child(work: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | str:
    """Return the result of `work` in a fork of this process, or a text that says what failed."""
    if not can_fork():
        return "without fork it cannot be tried out beforehand"
    text = forked(lambda pipe: _answer(work, pipe), lambda pipe: receive(pipe, lambda: LIMIT))
    if text is None:
        return f"a process that was to read samples gave no sign of life for {LIMIT:.0f} s"
    if not text:
        return "a process that was to read samples died"
    answer = json.loads(text)
    return answer if isinstance(answer, dict) else str(answer)


def forked(in_copy: Callable[[int], Any], here: Callable[[int], Any]) -> Any:
    """Fork; return `in_copy(pipe to write to)` in the fork, `here(pipe to read from)` here.

    The fork is killed when `here` has returned.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    before = offsets()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - a process that coverage does not see
        return in_copy(writing)
    os.close(writing)
    try:
        return here(reading)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        put_back(before)  # a child shares the file positions


_LINE: list[int] = []  # where a child writes; empty in any other process


def alive() -> None:
    """Tell the parent that this child still works; elsewhere do nothing."""
    for line in _LINE:
        os.write(line, b" ")  # JSON ignores it


def _answer(work: Callable[[], Mapping[str, Any]], to: int) -> None:  # pragma: no cover
    """Do the work, write the answer and exit without clean-up, which is the parent's."""
    try:
        _LINE.append(to)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.stdout = sys.stderr = io.StringIO()  # where they are not these
        import torch

        torch.set_num_threads(1)  # as loader workers do: OpenMP's threads do not survive a fork
        try:
            text = json.dumps(work())
        except Exception as error:
            message = " ".join(str(error).split())[:200]
            text = json.dumps(f"another process cannot read it: {type(error).__name__}: {message}")
            with contextlib.suppress(OSError):
                os.write(to, text.encode())
            raise
        os.write(to, text.encode())
    finally:
        os._exit(0)


def receive(pipe: int, patience: Callable[[], float]) -> str | None:
    """Return a fork's whole text; None if nothing comes for `patience()` seconds."""
    chunks: list[bytes] = []
    while wait([pipe], patience()):  # works for any number of open files
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            return b"".join(chunks).decode()
        chunks.append(chunk)
    return None


def _read(loader: Any) -> dict[str, Any]:
    """Read and collate the first batch twice; then request further batches from the sampler."""
    order = iter(loader._index_sampler)
    first = next(order)
    ids = list(first) if loader._auto_collation else [first]
    before, state, files = positions(loader), _marks(loader), offsets()
    samples = _samples(loader, ids, limit=READING)
    batch = _collated(loader, samples)
    after, once = positions(loader), _marks(loader)
    _be_a_worker(loader)
    again = _samples(loader, ids[: len(samples)], backwards=True)
    other = _collated(loader, again)
    facts = {
        "samples": len(samples),
        "batch": len(ids),
        "moved": moved(before, after),
        "equal": all(map(equal, samples, again)),
        "same": equal(batch, other) if equal(batch, batch) else None,
        "keeps": state != once,
        "changes": once != _marks(loader),
        "shares": _shares(batch, other),
        "views": all(map(_is_view, samples, again)),
        "seeks": bool(shifted(files)),
        "sample_bytes": nbytes(samples[0]),
        "unsent": _unsent(batch),
        "unpinned": _unpinned(batch),
    }
    states = positions(loader)
    for _ in range(4):
        if next(order, None) is None:
            break
    facts["ahead"] = moved(states, positions(loader))
    return facts


def _marks(loader: Any) -> Any:
    return marks(loader.dataset), marks(loader.collate_fn)


def _samples(
    loader: Any, ids: list[Any], *, limit: float | None = None, backwards: bool = False
) -> list[Any]:
    """Return samples in the order of `ids`; with `limit`, stop after that many seconds."""
    data, clock = loader.dataset, time.perf_counter
    if loader._auto_collation and getattr(data, "__getitems__", None):
        samples: list[Any] = data.__getitems__(ids)
        return samples
    samples, began = [], clock()
    for index in reversed(ids) if backwards else ids:
        if samples and limit is not None and clock() - began > limit:
            break
        samples.append(data[index])
        alive()
    return samples[::-1] if backwards else samples


def _collated(loader: Any, samples: list[Any]) -> Any:
    return loader.collate_fn(samples if loader._auto_collation else samples[0])


def _be_a_worker(loader: Any) -> None:
    """Set WorkerInfo as in one worker of several; the parent process does not see it."""
    from torch.utils.data._utils import worker

    info: Any = worker.WorkerInfo  # without types
    worker._worker_info = info(id=1, num_workers=3, seed=1, dataset=loader.dataset)


def _shares(one: Any, other: Any) -> bool:
    """Whether two values share writable memory."""
    import numpy as np
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        address = one.untyped_storage().data_ptr()
        return address != 0 and address == other.untyped_storage().data_ptr()
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.flags.writeable and np.may_share_memory(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one is other or any(_shares(one[key], other[key]) for key in one if key in other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return any(map(_shares, one, other))
    if isinstance(one, list) and isinstance(other, list):
        return one is other or any(map(_shares, one, other))
    return one is other and hasattr(one, "__dict__") and not isinstance(one, type)


def _is_view(one: Any, other: Any) -> bool:
    """Whether two reads of a sample have tensors or arrays, and all of them share memory."""
    arrays, others = list(_arrays(one)), list(_arrays(other))
    return len(arrays) == len(others) > 0 and all(map(_shares, arrays, others))


def _arrays(sample: Any) -> Iterator[Any]:
    """Yield the tensors and arrays of a sample, however nested."""
    import numpy as np
    import torch

    if isinstance(sample, torch.Tensor | np.ndarray):
        yield sample
    elif isinstance(sample, Mapping | list | tuple):
        for part in sample.values() if isinstance(sample, Mapping) else sample:
            yield from _arrays(part)


def _unpinned(batch: Any) -> str | None:
    import torch

    if isinstance(batch, torch.Tensor):
        return None  # dense and on the CPU: no other kind is read here
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, list | tuple):
        return next((why for part in batch if (why := _unpinned(part)) is not None), None)
    return f"a {type(batch).__name__} pins itself" if hasattr(batch, "pin_memory") else None


def _unsent(batch: Any) -> str | None:
    import torch.multiprocessing  # its reductions are what a worker sends tensors by

    del torch
    try:
        reduction.ForkingPickler.dumps(batch)
    except (TypeError, AttributeError, RuntimeError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None
