"""Reads one process and all below it: cores in use, memory, whether it still lives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hotloop.core.errors import UsageError
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Tree"]

PROC = Path("/proc")
SEARCH = 10.0  # seconds between two searches for new children where that means all processes
_GONE = (psutil.Error, OSError)


class Tree:
    """A process and its descendants. Raises UsageError when there is no such process.

    Memory is the sum of resident pages, in which shared ones count for each process. What a child
    computed that began and ended between two readings is lost. `proc` and `now` are seams.
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
        self._before = self._spent()

    @property
    def pid(self) -> int:
        """The id of the first of them."""
        return int(self._root.pid)

    @property
    def pids(self) -> frozenset[int]:
        """The ids of all of them at the last reading."""
        return frozenset(self._known)

    @property
    def command(self) -> str:
        """What was typed to start it; its name where that is hidden."""
        try:
            return " ".join(self._root.cmdline()) or str(self._root.name())
        except _GONE:
            return "unknown"

    def alive(self) -> bool:
        """Whether the process is there, not only its entry that waits for the parent."""
        try:
            return bool(self._root.is_running() and self._root.status() != psutil.STATUS_ZOMBIE)
        except _GONE:
            return False

    def paused(self) -> bool:
        """Whether the process was stopped by a signal (SIGSTOP, Ctrl-Z)."""
        try:
            return bool(self._root.status() == psutil.STATUS_STOPPED)
        except _GONE:
            return False

    def read(self) -> dict[str, float]:
        """Return the readings by name, the unit at its end; empty when all are gone."""
        self._find()
        at, cpu, rss = spent = self._spent()
        (then, cpu_then, _), self._before = self._before, spent
        if not rss:
            return {}
        found = {"process_rss_bytes": float(sum(rss.values())), "process_count": float(len(rss))}
        if at > then:
            used = sum(max(0.0, now - cpu_then.get(pid, now)) for pid, now in cpu.items())
            found["process_cpu_cores"] = used / (at - then)
        return found

    def _find(self) -> None:
        """Look for children: in the kernel's own lists, else now and then among all processes."""
        if self._listed:
            pids = _below(self.pid, self._proc)
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

    def _spent(self) -> tuple[float, dict[int, float], dict[int, int]]:
        """Return now, and the CPU seconds and resident bytes of each process."""
        cpu, rss = {}, {}
        for pid, process in self._known.items():
            try:
                with process.oneshot():
                    times, resident = process.cpu_times(), process.memory_info().rss
            except _GONE:
                continue
            if resident:  # 0: it has ended, and waits for its parent
                cpu[pid], rss[pid] = times.user + times.system, resident
        return self._now(), cpu, rss


def _below(pid: int, proc: Path) -> list[int]:
    found: list[int] = []
    for path in (proc / f"{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:  # the thread has just ended
            continue
    return [*found, *(deeper for child in found for deeper in _below(child, proc))]
