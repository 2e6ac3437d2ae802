"""Makes whole windows in loader processes, ahead of the loop and in the order of the loop.

A window is requested by its places (epoch, first sample, count), so processes share no state, and
their number does not change any sample.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils.data import DataLoader, Dataset

from hotloop.core.errors import DataError, HotloopError
from hotloop.session.accumulation_windows import batch_at
from hotloop.session.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from hotloop.session.accumulation_windows import AccumulationWindows, Place, Position
    from hotloop.session.batch import Samples

__all__ = ["WindowWorkers", "key_of"]

TIMEOUT = 300.0  # seconds without a window after which a loader process counts as hanging


class _Places(Dataset[object]):
    """Maps the places of a window to its batches, or to the message of an error."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __getitem__(self, window: list[Place]) -> object:
        try:
            made = [batch_at(self._samples, place) for place in window]
        except HotloopError as error:
            return str(error)  # torch would wrap it in the traceback of the process
        # Types that torch can pin.
        return [
            (dict(b.tensors), b.samples, b.tokens, b.targets, b.boundaries, b.counts) for b in made
        ]


class WindowWorkers:
    """Makes the windows of a feed in `count` processes, each of which keeps `ahead` ready."""

    def __init__(self, feed: AccumulationWindows, *, count: int, ahead: int, pin: bool) -> None:
        self._feed, self._count, self._ahead, self._pin = feed, count, ahead, pin
        self._windows: Iterator[object] | None = None
        self._next: tuple[int, int, int] | None = None  # `key_of` the iterator's next window

    def window(self, position: Position, micro_batch: int) -> list[Batch]:
        """Return the window at a position. Raises DataError if it fails or a process dies."""
        try:
            with _DEATHS.raised():
                if self._windows is None or self._next != key_of(position, micro_batch):
                    self._windows = self._start(position, micro_batch)
                    _DEATHS.hold_back()
                made = next(self._windows)
        except RuntimeError as error:
            self.close()
            # The frames of its traceback would keep torch's iterator, and its processes, alive.
            raise DataError(self._died(position, error)) from error.with_traceback(None)
        except BaseException:  # a signal: the queue may be in the middle of a message
            self.close()
            raise
        if isinstance(made, str):
            self.close()
            raise DataError(made)
        self._next = key_of(self._feed.after(position), micro_batch)
        assert isinstance(made, list)
        return [
            Batch(tensors=t, samples=s, tokens=n, targets=c, boundaries=b, counts=is_counted)
            for t, s, n, c, b, is_counted in made
        ]

    def prepare(self, position: Position, micro_batch: int) -> None:
        """Do nothing: the processes prefetch by themselves."""

    def close(self) -> None:
        """End the processes."""
        self._windows = self._next = None

    def _start(self, position: Position, micro_batch: int) -> Iterator[object]:
        self.close()
        loader = DataLoader(
            _Places(self._feed.samples),
            sampler=_places(self._feed, position, micro_batch),
            batch_size=None,
            num_workers=self._count,
            prefetch_factor=self._ahead,
            pin_memory=self._pin,
            timeout=TIMEOUT,
            worker_init_fn=_ignore_signals,
            generator=torch.Generator(),  # its seed must not come from training's stream
        )
        return iter(loader)

    def _died(self, position: Position, error: RuntimeError) -> str:
        first, count = self._feed.span(position)
        return (
            f"a loader process ended or hangs while samples {first}..{first + count - 1} of epoch "
            f"{position.epoch} were waited for ({error}); with less memory to spare use fewer of "
            "them (loader-workers:count=1), or none"
        )


class _Deaths:
    """Reports a dead loader process where a window is waited for, and nowhere else.

    torch raises the error from its SIGCHLD handler, at whichever line the main thread executes.
    """

    def __init__(self) -> None:
        self._raise: Callable[[int, FrameType | None], object] | None = None
        self._is_waiting = self._has_come = False

    def hold_back(self) -> None:
        """Put this before torch's handler, which torch sets with the first loader of a process."""
        handler = signal.getsignal(signal.SIGCHLD)
        if handler == self._hear or not callable(handler):  # somebody has taken torch's away
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self._raise = handler
        signal.signal(signal.SIGCHLD, self._hear)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise RuntimeError for the deaths up to here, and for each that comes meanwhile."""
        self._is_waiting = True
        try:
            if self._has_come and self._raise is not None:
                self._has_come = False
                self._raise(signal.SIGCHLD, None)
            yield
        finally:
            self._is_waiting = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._is_waiting and self._raise is not None:
            self._raise(number, frame)
        else:
            self._has_come = True


_DEATHS = _Deaths()  # a process has one handler of a signal


def key_of(position: Position, micro_batch: int) -> tuple[int, int, int]:
    """Return what tells one window from another: epoch, first sample, micro batch."""
    return position.epoch, position.sample, micro_batch


def _places(
    feed: AccumulationWindows, position: Position, micro_batch: int
) -> Iterator[list[Place]]:
    """Yield, without end, the places of the micro batches of each window from a position on."""
    while True:
        yield [
            (position.epoch, first, count)
            for first, count in feed.micro_batches(position, micro_batch)
        ]
        position = feed.after(position)


def _ignore_signals(worker: int) -> None:
    """Leave Ctrl-C to the loop, which ends the processes after it has saved."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
