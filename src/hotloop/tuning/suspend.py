"""Puts processes to sleep and wakes them, except those that clean up after others."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from hotloop.process.supervisor import is_tidier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["children_asleep", "descendants", "put_to_sleep", "wake"]

_GONE: Final = (psutil.NoSuchProcess, psutil.AccessDenied)


def children_asleep() -> list[psutil.Process]:
    """Put all descendants of this process to sleep; return those that ran, for `wake`."""
    return put_to_sleep(descendants(psutil.Process()))


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return the child processes of a process, and theirs.

    Linux lists them by thread; elsewhere psutil looks at all processes of the machine, which takes
    20 us for each of them.
    """
    tasks = Path("/proc", str(process.pid), "task")
    found = list[psutil.Process]()
    if not (tasks / str(process.pid) / "children").exists():
        with contextlib.suppress(*_GONE):
            found += process.children(recursive=True)
        return found
    for children in tasks.glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for pid in children.read_text().split():
                with contextlib.suppress(*_GONE):
                    child = psutil.Process(int(pid))
                    found += [child, *descendants(child)]
    return found


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
