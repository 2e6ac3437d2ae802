"""Reads the host: its cores, memory and disks, as far as this container's share of them goes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hotloop.machine.clock import clock
from hotloop.machine.detect import groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["HostReading"]

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


class HostReading:
    """What changes on this machine; rates are those since the reading before.

    `memory` is what the process may be given, bytes: in a container with a limit its own use is
    read, not the machine's. `proc`, `cgroup` and `now` are seams.
    """

    def __init__(
        self,
        *,
        memory: int | None,
        proc: Path = PROC,
        cgroup: Path = CGROUP,
        now: Callable[[], float] = clock,
    ) -> None:
        self._now = now
        self._limited = _limited(memory, proc, cgroup)
        self._quotas = [g / "cpu.stat" for g in groups("cpu", proc, cgroup) if _periods(g)]
        self._before = self._counted()
        psutil.cpu_percent(percpu=True)  # the next call tells what was used since this one

    def read(self) -> dict[str, float]:
        """Return the readings by name, the unit at its end; what is unknown is left out."""
        found = {**_cores(psutil.cpu_percent(percpu=True)), **self._memory()}
        before, self._before = self._before, self._counted()
        seconds = self._before["at"] - before["at"]
        gained = {k: self._before[k] - before[k] for k in self._before.keys() & before.keys()}
        if seconds > 0 and "read" in gained:
            found["disk_read_bytes_per_s"] = max(0.0, gained["read"]) / seconds
            found["disk_written_bytes_per_s"] = max(0.0, gained["written"]) / seconds
        if gained.get("periods", 0) > 0:
            found["cpu_throttled_percent"] = 100 * gained["throttled"] / gained["periods"]
        return found

    def _memory(self) -> dict[str, float]:
        if self._limited is None:
            memory = psutil.virtual_memory()
            return {"ram_used_bytes": float(memory.total - memory.available)}
        return _used(self._limited)

    def _counted(self) -> dict[str, float]:
        """Return what only grows: bytes of the disks, periods of the CPU quota."""
        counted = {"at": self._now()}
        if (disks := psutil.disk_io_counters()) is not None:  # None: the container shows none
            told = disks._asdict()
            counted |= {"read": float(told["read_bytes"]), "written": float(told["write_bytes"])}
        for path in self._quotas:
            spent = _numbers(path)
            for name, key in (("periods", "nr_periods"), ("throttled", "nr_throttled")):
                counted[name] = counted.get(name, 0.0) + spent.get(key, 0.0)
        return counted


def _cores(every: Sequence[float]) -> dict[str, float]:
    """Return how busy the cores are that this process may use."""
    allowed = set(range(len(every)))
    if hasattr(os, "sched_getaffinity"):  # a container sees the cores of the whole machine
        allowed &= os.sched_getaffinity(0)
    busy = {f"cpu_core{core}_percent": every[core] for core in sorted(allowed)}
    if not busy:
        return {}
    mean = sum(busy.values()) / len(busy)
    return {"cpu_percent": mean, "cpu_busiest_core_percent": max(busy.values()), **busy}


def _limited(memory: int | None, proc: Path, cgroup: Path) -> Path | None:
    """Return the control group whose limit is `memory`; None: the machine's own memory is it."""
    for group in groups("memory", proc, cgroup):
        for name in ("memory.max", "memory.limit_in_bytes"):  # v2, v1
            if memory is not None and _text(group / name).strip() == str(memory):
                return group
    return None


def _used(group: Path) -> dict[str, float]:
    """Return the use of a control group without the file cache that can go at once.

    As `docker stats` counts it: https://docs.docker.com/reference/cli/docker/container/stats/
    """
    for use, cache in (
        ("memory.current", "inactive_file"),
        ("memory.usage_in_bytes", "total_inactive_file"),
    ):
        if (text := _text(group / use).strip()).isdecimal():
            idle = _numbers(group / "memory.stat").get(cache, 0.0)
            return {"ram_used_bytes": max(0.0, float(text) - idle)}
    return {}


def _periods(group: Path) -> bool:
    """Whether a control group has a CPU quota."""
    return _numbers(group / "cpu.stat").get("nr_periods", 0.0) > 0


def _numbers(path: Path) -> Mapping[str, float]:
    found = re.findall(r"^(\w+) (\d+)$", _text(path), re.MULTILINE)
    return {name: float(number) for name, number in found}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or closed to us
        return ""
