"""Times a loader's batches with one worker process, or none, beside the steps of the script."""

from __future__ import annotations

import copy
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.observe.experiments.variants import NOT_REACHED, TimedPart, Variant

if TYPE_CHECKING:
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["NoWorkers", "WorkerProcess"]

_SECONDS: Final = 0.4  # of reading as fast as the worker can
_FEWEST, _MOST = 3, 100  # batches
_TWO: Final = 2  # batches: the first starts the worker, the others are timed
_READY: Final = 3  # batches that are taken when they lie ready
_TIMEOUT: Final = 20.0  # seconds for a batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Seconds of a batch that a worker reads."""

    reading: float  # in the worker, with the way to the loop's process
    taking: float  # in the loop's process, of a batch that lies ready


class WorkerProcess(Variant):
    """One worker process reads the batches ahead: what it takes is measured apart."""

    trims = False

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._pace: _Pace | str | None = None
        self._batches, self._epoch = 1.0, float("inf")  # of a step; of an epoch

    def prepare(self) -> str | None:
        """Read batches of the training loader in a worker, once."""
        if self._pace is None:
            training = [(one, number) for one, number in self._loaders.training if number]
            if not training:
                return NOT_REACHED
            loader, self._batches = max(training, key=lambda pair: pair[1])
            try:
                self._epoch = len(loader)
                if self._epoch < _TWO:
                    raise _WorkerError("an epoch has no second batch")
                self._pace = _measured(loader)
            except _WorkerError as error:
                self._pace = str(error)
        return self._pace if isinstance(self._pace, str) else None

    def measured_apart(self, step: float, waiting: float) -> TimedPart:
        """Return the wait of a step as it is, and what is left of it beside a worker."""
        assert isinstance(self._pace, _Pace)
        reading, taking = self._batches * self._pace.reading, self._batches * self._pace.taking
        left = max(taking, reading - max(0.0, step - waiting))
        first = self._pace.reading * self._batches / self._epoch  # of an epoch: nothing is ahead
        return TimedPart(seconds=waiting, changed=left + first, most=1.0)

    def switch_on(self) -> None:
        """Leave the script as it is."""

    def switch_off(self) -> None:
        """Leave the script as it is."""


class NoWorkers(Variant):
    """The loop's own process reads the batches, in place of the script's worker processes.

    These make what they were asked for before, and then rest: a core that they share with the loop
    is the loop's alone.
    """

    trims = False

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._why_not: str | None = NOT_REACHED

    def prepare(self) -> str | None:
        """Read a batch of each training loader in this process, once."""
        if self._why_not == NOT_REACHED and (training := self._loaders.training):
            try:
                for loader, _ in training:
                    _read_one(loader)
                self._why_not = None
            except _WorkerError as error:
                self._why_not = str(error)
        return self._why_not

    def switch_on(self) -> None:
        """Read in this process; a short epoch that begins now starts no workers."""
        self._loaders.by_hand, self._loaders.starts_workers = _read_here, False

    def switch_off(self) -> None:
        """Let the workers read."""
        self._loaders.by_hand, self._loaders.starts_workers = None, True


def _read_here(iterator: Any) -> Any:
    """Return the next batch of an iterator as a DataLoader without worker processes makes it."""
    from torch.utils.data import _utils

    batch = _fetcher(iterator).fetch(next(iterator._sampler_iter))
    iterator._num_yielded += 1
    pin: Any = _utils.pin_memory.pin_memory
    return pin(batch) if iterator._pin_memory else batch


def _fetcher(iterator: Any) -> Any:
    """Return what reads a data set by its indices, in this process."""
    from torch.utils.data import _utils

    if not hasattr(iterator, "_hotloop_fetcher"):
        iterator._hotloop_fetcher = _utils.fetch._MapDatasetFetcher(
            iterator._dataset,
            iterator._auto_collation,
            iterator._collate_fn,
            iterator._drop_last,
        )
    return iterator._hotloop_fetcher


class _WorkerError(Exception):
    """A worker process cannot read the loader; the text says why."""


def _read_one(loader: Any) -> None:
    """Read a batch without workers."""
    import torch

    other = copy.copy(loader)  # of which nothing counts as the script's
    other.num_workers, other.prefetch_factor, other.timeout = 0, None, 0
    try:
        with torch.no_grad():
            next(iter(other))
    except Exception as error:  # whatever the user's data set raises there
        raise _WorkerError(f"the loop's process does not read it: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Return the last line of what an exception says, as there may be a traceback in it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[-1]:.150}"


def _measured(loader: Any) -> _Pace:
    """Read batches in one worker process."""
    try:
        return _read(loader)
    except Exception as error:  # whatever the user's data set raises there
        raise _WorkerError(f"a worker does not read it: {_said(error)}") from error


def _read(loader: Any) -> _Pace:
    import torch

    other = copy.copy(loader)
    other.num_workers, other.prefetch_factor, other.timeout = 1, 2, _TIMEOUT
    with torch.no_grad():  # else they count as batches of the script
        batches = iter(other)
        try:
            next(batches)
            began, number = time.perf_counter(), 0
            while number < _FEWEST or time.perf_counter() - began < _SECONDS:
                if number and number >= min(_MOST, len(other) - _READY - 1):
                    break
                next(batches)
                number += 1
            reading = (time.perf_counter() - began) / number
            taking = []
            for _ in range(min(_READY, max(0, len(other) - 1 - number))):
                time.sleep(2 * reading)
                began = time.perf_counter()
                next(batches)
                taking.append(time.perf_counter() - began)
        finally:
            batches._shutdown_workers()
    return _Pace(reading=reading, taking=statistics.median(taking or [reading]))
