"""Holds Python's garbage collector off for a moment, unseen by the script.

The collector has one switch for all threads. While a thread of hotloop has it off, a script that
calls `gc.isenabled()`, switches the collector itself or forks has to wait; that takes
microseconds.
"""

from __future__ import annotations

import functools
import gc
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.hooks import StandIn
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Collector"]

_NAMES = ("enable", "disable", "isenabled")


class Collector:
    """The switch of the garbage collector, shared with the script."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finaliser that runs while it is held may use the switch
        self._ours: dict[str, Any] = {}  # the replacements in the module gc, by name
        self._own = {name: getattr(gc, name) for name in _NAMES}

    def stand_before(self) -> None:
        """Replace the functions of gc: the script's calls then wait while the collector is held."""
        for name, own in self._own.items():
            self._ours[name] = self._waiting(own)
            setattr(gc, name, self._ours[name])
        if hasattr(os, "register_at_fork"):
            release = self._release
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=release, after_in_child=release
            )

    def give_back(self) -> None:
        """Restore the functions of gc, unless somebody else has replaced one since."""
        for name, ours in self._ours.items():
            if getattr(gc, name) is ours:
                setattr(gc, name, self._own[name])
        self._ours.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the collector off inside the block."""
        with self._lock:
            if not self._own["isenabled"]():
                yield
                return
            self._own["disable"]()
            try:
                yield
            finally:
                self._own["enable"]()

    def _waiting(self, own: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(own)
        def switch() -> Any:
            with self._lock:
                return own()

        return StandIn(own, switch)

    def _release(self) -> None:
        self._lock.release()


hide(globals())
