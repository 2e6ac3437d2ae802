"""Reads the cores, memory and disks of the host, limited to the share of this container."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import psutil

from hotloop.machine.clock import clock
from hotloop.machine.detect import CGROUP, PROC, groups, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["HostReading"]


class HostReading:
    """Readings of this machine; rates are those since the previous reading.

    `memory` is the memory limit of this process in bytes; in a container with a limit, the use of
    the container is read instead of the machine's. `proc`, `cgroup` and `now` are seams.
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
        self._limiting_group = _limiting_group(memory, proc, cgroup)
        self._quotas = [g / "cpu.stat" for g in groups("cpu", proc, cgroup) if _has_quota(g)]
        self._before = self._read_counters()
        psutil.cpu_percent(percpu=True)  # the next call returns the use since this one

    def read(self) -> dict[str, float]:
        """Return the known readings by name, which ends with the unit."""
        readings = {**_core_utilisation(psutil.cpu_percent(percpu=True)), **self._memory()}
        before, self._before = self._before, self._read_counters()
        seconds = self._before["at"] - before["at"]
        gained = {k: self._before[k] - before[k] for k in self._before.keys() & before.keys()}
        if seconds > 0 and "read" in gained:
            readings["disk_read_bytes_per_s"] = max(0.0, gained["read"]) / seconds
            readings["disk_written_bytes_per_s"] = max(0.0, gained["written"]) / seconds
        if gained.get("periods", 0) > 0:
            readings["cpu_throttled_percent"] = 100 * gained["throttled"] / gained["periods"]
        return readings

    def _memory(self) -> dict[str, float]:
        if self._limiting_group is None:
            memory = psutil.virtual_memory()
            return {"ram_used_bytes": float(memory.total - memory.available)}
        return _memory_use(self._limiting_group)

    def _read_counters(self) -> dict[str, float]:
        """Return the growing counters: bytes of the disks, periods of the CPU quota."""
        counted = {"at": self._now()}
        if (disks := psutil.disk_io_counters()) is not None:  # None: the container shows none
            counters = disks._asdict()
            counted |= {
                "read": float(counters["read_bytes"]),
                "written": float(counters["write_bytes"]),
            }
        for path in self._quotas:
            numbers = _numbers(path)
            for name, key in (("periods", "nr_periods"), ("throttled", "nr_throttled")):
                counted[name] = counted.get(name, 0.0) + numbers.get(key, 0.0)
        return counted


def _core_utilisation(percents: Sequence[float]) -> dict[str, float]:
    """Return the utilisation in per cent of the cores that this process may use."""
    allowed = set(range(len(percents)))
    if hasattr(os, "sched_getaffinity"):  # a container sees the cores of the whole machine
        allowed &= os.sched_getaffinity(0)
    busy = {f"cpu_core{core}_percent": percents[core] for core in sorted(allowed)}
    if not busy:
        return {}
    mean = sum(busy.values()) / len(busy)
    return {"cpu_percent": mean, "cpu_busiest_core_percent": max(busy.values()), **busy}


def _limiting_group(memory: int | None, proc: Path, cgroup: Path) -> Path | None:
    """Return the control group whose limit is `memory`; None if the machine is the limit."""
    for group in groups("memory", proc, cgroup):
        for name in ("memory.max", "memory.limit_in_bytes"):  # v2, v1
            if memory is not None and read_text(group / name).strip() == str(memory):
                return group
    return None


def _memory_use(group: Path) -> dict[str, float]:
    """Return the memory use of a control group without the reclaimable file cache.

    As `docker stats` counts it: https://docs.docker.com/reference/cli/docker/container/stats/
    """
    for use, cache in (
        ("memory.current", "inactive_file"),
        ("memory.usage_in_bytes", "total_inactive_file"),
    ):
        if (text := read_text(group / use).strip()).isdecimal():
            idle = _numbers(group / "memory.stat").get(cache, 0.0)
            return {"ram_used_bytes": max(0.0, float(text) - idle)}
    return {}


def _has_quota(group: Path) -> bool:
    """Whether a control group has a CPU quota."""
    return _numbers(group / "cpu.stat").get("nr_periods", 0.0) > 0


def _numbers(path: Path) -> Mapping[str, float]:
    matches = re.findall(r"^(\w+) (\d+)$", read_text(path), re.MULTILINE)
    return {name: float(number) for name, number in matches}
