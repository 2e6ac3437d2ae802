"""Turns Ctrl-C, SIGTERM and SIGHUP into flags that every loop polls; no completed step is lost.

The window in flight has GRACE seconds to finish. Then it is dropped (Dropped is raised between two
operators, or at the next poll) and the last completed step is saved. A second signal drops it at
once, except SIGHUP, which both a closing terminal and its shell send. Only forward and backward can
be dropped; the update is never interrupted. SIGUSR1 requests a save and ends nothing: Slurm sends
it before a job's time is over.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotloop.core.sharding_ids import LEAVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from hotloop.session.ranks import ProcessGroup

__all__ = ["GRACE", "Dropped", "Signals", "leaving_in_time"]

GRACE = 8.0  # seconds that a window may still take; the process promises to end within 10
_NAMES, _SAVE = ("SIGINT", "SIGTERM", "SIGHUP"), "SIGUSR1"
_SERIOUS = frozenset(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


class Dropped(Exception):  # noqa: N818 - not an error: the window in flight is given up
    """The window (or validation) in flight is given up because of a signal."""


class Signals:
    """The signals received so far, and whether the work in flight may go on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, grace: float = GRACE) -> None:
        self.received: int | None = None
        self.wants_save = False  # by SIGUSR1; the loop resets it after the save
        self._clock, self._grace = clock, grace
        self._since = 0.0
        self._droppable = self._at_once = False
        self._urgent = False

    @contextmanager
    def installed(self) -> Iterator[Signals]:
        """Handle the signals inside the block; outside the main thread, install nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        numbers = [getattr(signal, name) for name in (*_NAMES, _SAVE) if hasattr(signal, name)]
        if hasattr(signal, "SIGALRM"):
            numbers.append(signal.SIGALRM)
        # An ignored signal stays ignored: `nohup` relies on it.
        heard = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self.receive) for number in heard}
        try:
            yield self
        finally:
            self._timer(0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        """Record a signal; the alarm, or a second signal, makes it urgent."""
        del frame
        if number == getattr(signal, _SAVE, None):
            self.wants_save = True
            return
        if self.received is None:
            self.received, self._since = number, self._clock()
            self._timer(self._grace)
        elif number != getattr(signal, "SIGHUP", None):
            self._urgent = True
        if self._droppable and (self._urgent or self._at_once):
            self._droppable = self._at_once = False  # a second one must not interrupt what follows
            raise Dropped

    def since(self) -> float | None:
        """Return the seconds since the first signal; None if there was none."""
        return None if self.received is None else self._clock() - self._since

    def _timer(self, seconds: float) -> None:
        if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def poll(self) -> None:
        """Raise Dropped if the grace period is over; called between micro batches."""
        since = self.since()
        if since is not None and (self._urgent or since >= self._grace):
            raise Dropped

    @contextmanager
    def droppable(self, *, at_once: bool = False) -> Iterator[None]:
        """Mark work that a signal may interrupt between two operators.

        `at_once` leaves out the grace period, for work that can be repeated without loss, such as
        tokenising, compiling and validating. Raises Dropped.
        """
        if at_once and self.received is not None:
            raise Dropped
        self._droppable, self._at_once = True, at_once
        try:
            yield
        finally:
            self._droppable = self._at_once = False


@contextmanager
def leaving_in_time(
    ranks: ProcessGroup, signals: Signals, *, seconds: float = LEAVE
) -> Iterator[None]:
    """End the process if a run of several ranks is not done `seconds` after a signal.

    Python handles a signal between two instructions. A wait for a lost rank or for the device is a
    single instruction, and lasts until a timeout of an hour; torchrun would kill the process after
    30 s. The exit saves nothing. Inside the block, the group also knows the time since the signal.
    """
    main = threading.current_thread() is threading.main_thread()
    if ranks.world == 1 or not main:
        yield
        return
    ranks.signalled = signals.since
    out, into = os.pipe()
    os.set_blocking(into, False)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(out, over, seconds), daemon=True)
    before = signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(into)


def _watch(out: int, over: threading.Event, seconds: float) -> None:
    """Wait for a signal on the pipe, then for the end of the run; exit if it does not come."""
    while numbers := os.read(out, 16):
        serious = [number for number in numbers if number in _SERIOUS]
        if serious and not over.wait(seconds):
            name = signal.Signals(serious[0]).name
            message = f"hotloop: not done {seconds:.0f} s after {name}: ends without saving\n"
            os.write(2, message.encode())
            os._exit(128 + serious[0])
    os.close(out)
