"""Reads the CPU and memory use of a process and its descendants, and whether it is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from hotloop.core.errors import UsageError
from hotloop.machine.clock import clock
from hotloop.machine.detect import PROC

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Tree"]

SEARCH = 10.0  # seconds between two searches for children if all processes must be scanned
_GONE = (psutil.Error, OSError)


class Tree:
    """A process and its descendants. Raises UsageError if there is no such process.

    Memory is the sum of resident pages; shared pages count for each process. The CPU time of a
    child that starts and ends between two readings is lost. `proc` and `now` are seams.
    """

    def __init__(self, pid: int, *, proc: Path = PROC, now: Callable[[], float] = clock) -> None:
        try:
            self._root = psutil.Process(pid)
        except psutil.Error as error:
            raise UsageError(f"no process has the id {pid}: `ps` lists those there are") from error
        self._proc, self._now = proc, now
        self._listed = any((proc / f"{pid}/task").glob("*/children"))
        self._searched = -SEARCH
        self._known: dict[int, psutil.Process] = {pid: self._root}
        self._before = self._read_usage()

    @property
    def pid(self) -> int:
        """The id of the root process."""
        return int(self._root.pid)

    @property
    def pids(self) -> frozenset[int]:
        """The ids of all processes at the last reading."""
        return frozenset(self._known)

    @property
    def command(self) -> str:
        """The command line of the root process; its name if that is hidden."""
        try:
            return " ".join(self._root.cmdline()) or str(self._root.name())
        except _GONE:
            return "unknown"

    def alive(self) -> bool:
        """Whether the root process exists and is not a zombie."""
        try:
            return bool(self._root.is_running() and self._root.status() != psutil.STATUS_ZOMBIE)
        except _GONE:
            return False

    def paused(self) -> bool:
        """Whether the root process was stopped by a signal (SIGSTOP, Ctrl-Z)."""
        try:
            return bool(self._root.status() == psutil.STATUS_STOPPED)
        except _GONE:
            return False

    def read(self) -> dict[str, float]:
        """Return the readings by name, which ends with the unit; empty if all have ended."""
        self._find()
        time, cpu, rss = spent = self._read_usage()
        (time_before, cpu_before, _), self._before = self._before, spent
        if not rss:
            return {}
        readings = {"process_rss_bytes": float(sum(rss.values())), "process_count": float(len(rss))}
        if time > time_before:
            used = sum(
                max(0.0, seconds - cpu_before.get(pid, seconds)) for pid, seconds in cpu.items()
            )
            readings["process_cpu_cores"] = used / (time - time_before)
        return readings

    def _find(self) -> None:
        """Find descendants in the kernel's lists, or every SEARCH seconds among all processes."""
        if self._listed:
            pids = _descendants(self.pid, self._proc)
        elif self._now() - self._searched >= SEARCH:
            self._searched = self._now()
            try:
                pids = [child.pid for child in self._root.children(recursive=True)]
            except _GONE:
                pids = []
        else:
            return
        known, self._known = self._known, {self.pid: self._root}
        for pid in pids:
            try:
                self._known[pid] = known.get(pid) or psutil.Process(pid)
            except psutil.Error:  # it has just ended
                continue

    def _read_usage(self) -> tuple[float, dict[int, float], dict[int, int]]:
        """Return the time, and the CPU seconds and resident bytes of each process."""
        cpu, rss = {}, {}
        for pid, process in self._known.items():
            try:
                with process.oneshot():
                    times, resident = process.cpu_times(), process.memory_info().rss
            except _GONE:
                continue
            if resident:  # 0: a zombie
                cpu[pid], rss[pid] = times.user + times.system, resident
        return self._now(), cpu, rss


def _descendants(pid: int, proc: Path) -> list[int]:
    children: list[int] = []
    for path in (proc / f"{pid}/task").glob("*/children"):
        try:
            children += map(int, path.read_text().split())
        except OSError:  # the thread has just ended
            continue
    return [*children, *(deeper for child in children for deeper in _descendants(child, proc))]
