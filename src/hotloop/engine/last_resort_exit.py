"""Ends a process that cannot handle a signal because it waits for a lost process of its group.

Python handles a signal between two instructions. A wait for another rank or for the device is a
single instruction, and lasts until a timeout of an hour. torchrun would kill the process after
30 s.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hotloop.core.sharding_ids import LEAVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.engine.signals import Signals
    from hotloop.session.ranks import ProcessGroup

__all__ = ["leaving_in_time"]

_SERIOUS: Final = frozenset(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def leaving_in_time(
    ranks: ProcessGroup, signals: Signals, *, seconds: float = LEAVE
) -> Iterator[None]:
    """End the process if a run of several ranks is not done `seconds` after a signal.

    The exit saves nothing. Inside the block, the group also knows the time since the signal.
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
