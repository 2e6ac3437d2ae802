"""Samples the stack of the main thread some tens of times a second, from its own thread.

Python gives a thread the GIL when the running one waits, or after the switch interval. At 5 ms
most samples would fall where the script releases the GIL, so the interval is shorter while the
sampler runs. The thread must be stopped and joined before the interpreter ends: a daemon that
still ran aborted 1 of 12 runs (PROBE 6, pytorch issue 38228).
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.observe.hooks.garbage_collector import Collector
from hotloop.observe.hooks.stack_frames import walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

__all__ = ["StackSampler", "Stand"]

EVERY = 0.02  # seconds; 100 a second cost 4.2 us a step of 0.45 ms (PROBE 3), 50 half of that
SWITCH = 1e-4  # seconds a running thread keeps the GIL from the sampler; Python's own is 5e-3
MOST = 30_000  # samples; beyond it every second one is dropped, and the rate is halved
MOST_FAULTS = 10  # failed samples after which the sampler gives up
# Since 3.12 the garbage collector runs only between two instructions:
# https://docs.python.org/3/whatsnew/3.12.html
_COLLECTS_INSIDE = sys.version_info < (3, 12)

Stack = tuple[tuple["CodeType", int], ...]


@dataclass(slots=True)
class Stand:
    """A sample."""

    at: int  # ns
    stack: Stack
    cpu: int  # the thread's CPU time until then, ns


class StackSampler:
    """A thread that samples another one, and calls `each` after every sample."""

    def __init__(self, thread: int, *, each: Callable[[], None] = lambda: None) -> None:
        self.stands: list[Stand] = []
        self.fault: BaseException | None = None
        self._thread, self._each = thread, each
        self._every = EVERY
        self._over = threading.Event()
        self._stacks: dict[Stack, Stack] = {}
        self._runner = threading.Thread(target=self._run, name="hotloop sampler", daemon=True)
        get_clock = getattr(time, "pthread_getcpuclockid", None)  # not on Windows, not on macOS
        self._clock: int | None = get_clock(thread) if get_clock else None
        self._interval: float | None = None  # the script's own
        self._collector = Collector() if _COLLECTS_INSIDE else None

    def start(self) -> None:
        """Begin to sample."""
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        if self._collector is not None:
            self._collector.stand_before()
        self._runner.start()

    def stop(self) -> None:
        """End sampling, and wait until the thread has ended."""
        self._over.set()
        if self._runner.is_alive():
            self._runner.join()
        self.give_back()

    def give_back(self) -> None:
        """Restore the switch interval, unless the script has set one since."""
        if self._interval is not None and abs(sys.getswitchinterval() - SWITCH) < 1e-6:
            sys.setswitchinterval(self._interval)
        self._interval = None
        if self._collector is not None:
            self._collector.give_back()

    def _run(self) -> None:
        attempts = MOST_FAULTS
        while attempts and not self._over.wait(self._every):
            try:
                self._look()
                self._each()
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                self.fault, attempts = error, attempts - 1

    def _look(self) -> None:
        stack = self._walk()
        stack = self._stacks.setdefault(stack, stack)
        cpu = 0 if self._clock is None else time.clock_gettime_ns(self._clock)
        self.stands.append(Stand(time.perf_counter_ns(), stack, cpu))
        if len(self.stands) >= MOST:
            self.stands = self.stands[::2]
            self._every *= 2

    def _walk(self) -> Stack:
        """Return the other thread's stack, without a garbage collection meanwhile.

        Up to Python 3.11 `f_back` may collect when it makes a frame object. If that runs Python
        code, a gc callback or a __del__, the other thread goes on and may leave that very frame: a
        segmentation fault within 30 s of sampling every 0.3 ms (n=1), none with the collector off
        (n=2).
        """
        with self._collector.held() if self._collector is not None else nullcontext():
            return walk(sys._current_frames().get(self._thread))
