"""Tries out what reading a DataLoader's samples does, in a forked child: nothing happens here.

The child reads what the loader would read first: it moves its own generators, opens its own files
and keeps its own caches. What it finds comes back as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import select
import signal
import statistics
import sys
import time
from dataclasses import dataclass
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

from hotloop.probe.describe import nbytes
from hotloop.probe.equal import equal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Tried", "can_fork", "in_child", "positions", "try_reading"]

LIMIT = 30.0  # seconds until a child that hangs is killed; opening a data set may take some
READING = 1.0  # seconds of reading, or one batch of samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What reading the first samples did."""

    samples: int  # that were read, each twice
    seconds: float  # of one sample, median of the first reads
    batch: int  # samples of the first batch
    batch_seconds: float  # of reading and collating a whole batch
    moved: tuple[str, ...] = ()  # generators that reading or collating moved
    ahead: tuple[str, ...] = ()  # generators that the sampler moves after its first batch
    equal: bool = True  # both reads of every sample gave the same
    sample_bytes: int = 0
    unsent: str | None = None  # why a batch cannot be sent from a process to another


def can_fork() -> bool:
    """Whether loader processes can be made as copies of this one."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def positions(loader: Any) -> dict[str, Any]:
    """Return the state of each generator that somebody else might draw from as well."""
    import torch

    found: dict[str, Any] = {
        "torch": bytes(torch.get_rng_state().numpy()),
        "random": random.getstate(),
    }
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        found["numpy.random"] = (kind, keys.tobytes(), *rest)
    own = {id(g): g for g in (loader.generator, getattr(loader.sampler, "generator", None)) if g}
    for number, generator in enumerate(own.values()):
        found[f"the loader's generator {number + 1}"] = bytes(generator.get_state().numpy())
    return found


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name, state in after.items() if before.get(name, state) != state]


def try_reading(loader: Any) -> Tried | str:
    """Read the first batch of a map-style loader in a child; a text says why that failed."""
    found = in_child(lambda: _read(loader))
    if isinstance(found, str):
        return found
    return Tried(**{**found, "moved": tuple(found["moved"]), "ahead": tuple(found["ahead"])})


def in_child(work: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | str:
    """Return what `work` answers in a copy of this process, or what went wrong, as a text."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - a process that coverage does not see
        _answer(work, writing)
    os.close(writing)
    try:
        text = _receive(reading)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if text is None:
        return f"a process that was to read samples was not done after {LIMIT:.0f} s"
    if not text:
        return "a process that was to read samples died"
    found = json.loads(text)
    return found if isinstance(found, dict) else str(found)


def _answer(work: Callable[[], Mapping[str, Any]], to: int) -> None:  # pragma: no cover
    """Do the work, write the answer and go without any clean-up: all of it is the parent's."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.stdout = sys.stderr = io.StringIO()  # where they are not these
        import torch

        torch.set_num_threads(1)  # as loader workers do: OpenMP's threads did not survive the fork
        try:
            text = json.dumps(work())
        except Exception as error:
            told = " ".join(str(error).split())[:200]
            text = json.dumps(f"another process cannot read it: {type(error).__name__}: {told}")
            with contextlib.suppress(OSError):
                os.write(to, text.encode())
            raise
        os.write(to, text.encode())
    finally:
        os._exit(0)


def _receive(pipe: int) -> str | None:
    parts: list[bytes] = []
    end = time.monotonic() + LIMIT
    while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)
    return None


def _read(loader: Any) -> dict[str, Any]:
    """Read and collate the first batch; read its samples again; ask the sampler for more."""
    order = iter(loader._index_sampler)
    first = next(order)
    data = loader.dataset
    before, clock = positions(loader), time.perf_counter
    ids = list(first) if loader._auto_collation else [first]
    samples, took, began = list[Any](), list[float](), clock()
    for index in ids:
        if samples and clock() - began > READING:
            break
        at = clock()
        samples.append(data[index])
        took.append(clock() - at)
    at = clock()
    batch = loader.collate_fn(samples if loader._auto_collation else samples[0])
    collating = clock() - at
    after = positions(loader)
    same = all(equal(sample, data[i]) for i, sample in zip(ids, samples, strict=False))
    held = positions(loader)
    for _ in range(4):
        if next(order, None) is None:
            break
    return {
        "samples": len(samples),
        "seconds": statistics.median(took),
        "batch": len(ids),
        "batch_seconds": sum(took) / len(took) * len(ids) + collating,
        "moved": _moved(before, after),
        "ahead": _moved(held, positions(loader)),
        "equal": same,
        "sample_bytes": nbytes(samples[0]),
        "unsent": _unsent(batch),
    }


def _unsent(batch: Any) -> str | None:
    import torch.multiprocessing  # its reductions are what a worker sends tensors by

    del torch
    try:
        reduction.ForkingPickler.dumps(batch)
    except (TypeError, AttributeError, RuntimeError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None
