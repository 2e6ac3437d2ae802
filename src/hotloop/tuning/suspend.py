"""Puts processes to sleep and wakes them, except those that clean up after others."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import psutil

from hotloop.process.supervisor import is_tidier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["children_asleep", "put_to_sleep", "wake"]

_GONE: Final = (psutil.NoSuchProcess, psutil.AccessDenied)


def children_asleep() -> list[psutil.Process]:
    """Put all descendants of this process to sleep; return those that ran, for `wake`."""
    return put_to_sleep(psutil.Process().children(recursive=True))


def put_to_sleep(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Stop processes; return those that were running.

    Processes that remove shared memory after its owners die stay awake: if they were killed
    asleep, the memory would remain.
    """
    stopped = []
    for process in processes:
        with contextlib.suppress(*_GONE):
            if process.status() != psutil.STATUS_STOPPED and not is_tidier(process):
                process.suspend()
                stopped.append(process)
    return stopped


def wake(processes: Sequence[psutil.Process]) -> None:
    """Resume processes, the last one first."""
    for process in reversed(processes):
        with contextlib.suppress(*_GONE):
            process.resume()
