"""A clock that stands still while a thread is ready to run and other programs have its core.

Linux counts the nanoseconds that a thread waits in the run queue (/proc/PID/task/TID/schedstat).
Without them, two times of the same work on a busy machine are what it takes to run it. Where the
system does not tell, the clock is that of `time.perf_counter`.
"""

from __future__ import annotations

import functools
import os
import threading
import time

__all__ = ["own_time", "queued"]


def own_time() -> float:
    """Return seconds on a clock of the calling thread; only differences mean something."""
    before = queued()
    while True:
        now, waited = time.perf_counter(), queued()
        if waited == before:  # else the thread lost its core between the two
            return now - waited * 1e-9
        before = waited


def queued() -> int:
    """Return for how many nanoseconds the calling thread has been ready to run and did not."""
    file = _queue_of(os.getpid(), threading.get_native_id())
    return 0 if file is None else int(os.pread(file, 96, 0).split()[1])


@functools.cache
def _queue_of(process: int, thread: int) -> int | None:
    """Return the open file with the waiting time of a thread; None if the system has none."""
    try:
        file = os.open(f"/proc/{process}/task/{thread}/schedstat", os.O_RDONLY)
        is_counted = len(os.pread(file, 96, 0).split()) == 3
    except OSError:
        return None
    return file if is_counted else None
