"""Reads GPU, processes and disk some times a second while a script runs, from a thread.

The thread is stopped and joined; if it fails, only the readings end. nvidia-ml-py queries the
driver, and releases the GIL while it waits; psutil reads the processes.
"""

from __future__ import annotations

import functools
import itertools
import os
import statistics
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.machine.detect import gpu_handle, import_nvml
from hotloop.machine.nvml import look
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.probes.cuda import MOST, thinned
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.case import Case
    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["Readings"]

EVERY = 0.25  # seconds
OFTEN = 0.1  # share of readings from which a reason for a slow GPU counts
WARM = 6  # updates before the host's CPU time is counted


class Readings(Probe):
    """Reads the utilisation. `torch`, `nvml` and `proc` are seams."""

    def __init__(
        self, hooks: Hooks, *, torch: Any = None, nvml: Any = None, proc: Path = Path("/proc")
    ) -> None:
        self.fault: BaseException | None = None
        self._hooks, self._torch, self._nvml, self._proc = hooks, torch, nvml, proc
        self._rows: list[dict[str, float]] = []
        self._reasons: Counter[str] = Counter()
        self._every, self._pid = EVERY, os.getpid()
        self._over = threading.Event()
        self._runner: threading.Thread | None = None
        self._device: Any = None  # the GPU of the first outermost module
        self._handle: Any = None
        self._missing: str | None = None  # why the GPU was not read
        self._before: _Spent | None = None
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._iterators: dict[int, weakref.ref[Any]] = {}  # number of a loader -> its newest one
        self._busy: dict[int, float] = defaultdict(float)  # CPU seconds of a loader's workers
        self._watched: dict[int, float] = defaultdict(float)  # seconds in which it had workers
        self._ready: dict[int, list[bool]] = defaultdict(list)  # whether a batch stood ready
        self._host: list[tuple[float, float]] = []  # first and last wake: wall and CPU seconds

    # What the observer tells.

    def on_torch_imported(self) -> None:
        """Check the queues of loaders with workers when a batch is requested."""
        from torch.utils.data import dataloader

        cls: Any = dataloader._MultiProcessingDataLoaderIter
        old, hooks = cls._next_data, self._hooks

        def next_data(iterator: Any) -> Any:
            if hooks.look:
                hooks.quietly(self._asking, iterator)
            return old(iterator)

        hooks.replace(cls, "_next_data", functools.wraps(old)(next_data))

    def on_root_module(self, number: int, module: Any) -> None:
        """Begin to read when the first module is called; remember its GPU."""
        first = next(iter(module.parameters()), None)
        if self._device is None and first is not None and first.is_cuda:
            self._device = first.device
        if self._runner is None:
            self._runner = threading.Thread(target=self._run, name="hotloop readings", daemon=True)
            self._runner.start()
            self._hooks.when_down(self)

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Remember a loader's iterator, whose workers are about to start.

        Loaders get the same numbers as in the observer.
        """
        number = self._numbers.setdefault(loader, len(self._busy))
        self._busy[number] += 0.0
        self._iterators[number] = weakref.ref(iterator)

    def after_step(self, updates: int) -> None:
        """Record the CPU time of the host: that of the main thread, or with a GPU of the process.

        On a GPU, autograd launches the backward pass from another thread, so the process counts,
        with at most one core.
        """
        if updates >= WARM:
            spent = time.process_time() if self._device is not None else time.thread_time()
            self._host[1:] = [(time.perf_counter(), spent)]

    def remove(self) -> None:
        """Stop and join the thread, because the hooks are being removed."""
        if os.getpid() != self._pid:  # forked: there is no thread here, and its lock may be held
            return
        self._over.set()
        if self._runner is not None and self._runner.is_alive():
            self._runner.join()

    def add_to(self, case: Case) -> Case:
        """Add the readings."""
        self.remove()
        rows = self._rows
        names = dict.fromkeys(name for row in rows for name in row)
        readings = {name: thinned([row[name] for row in rows if name in row]) for name in names}
        disk = readings.get("read_bytes_per_s")
        often = OFTEN * len(rows)
        return replace(
            case,
            readings={**case.readings, **readings},
            throttle_reasons=tuple(name for name, n in self._reasons.items() if n >= often),
            loaders=tuple(
                replace(one, worker_cpu=self._worker_cpu(one.key), empty=self._empty(one.key))
                for one in case.loaders
            ),
            steps=replace(case.steps, main_cpu=self._host_cpu()),
            process=replace(
                case.process,
                disk_read=statistics.median(disk) if disk else None,
                page_cache=_page_cache(),
            ),
            not_checked=(*case.not_checked, *self._unread()),
        )

    def _asking(self, iterator: Any) -> None:
        ready = _is_ready(iterator)
        number = next((n for n, ref in self._iterators.items() if ref() is iterator), None)
        if ready is not None and number is not None:
            self._ready[number].append(ready)

    # The thread.

    def _run(self) -> None:
        try:
            while not self._over.wait(self._every):
                self._read()
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            self.fault = error

    def _read(self) -> None:
        workers = {number: _workers(ref()) for number, ref in list(self._iterators.items())}
        every = itertools.chain([os.getpid()], _below(os.getpid(), self._proc), *workers.values())
        now = _Spent.of(set(every))
        row = {"rss_bytes": float(psutil.Process().memory_info().rss)}
        if self._before is not None:
            row |= now.since(self._before)
            self._count(workers, self._before, now)
        self._before = now
        if (handle := self._gpu()) is not None:
            values, reasons = look(self._nvml, handle, own=frozenset(now.cpu))
            row |= values
            self._reasons.update(reasons)
        self._rows.append(row)
        if len(self._rows) >= 2 * MOST:
            del self._rows[::2]
            self._every *= 2

    def _gpu(self) -> Any:
        """Return NVML's handle of the GPU once the script uses one, else None."""
        if self._handle is None and self._missing is None and self._device is not None:
            self._nvml = self._nvml or import_nvml()
            if self._nvml is None:
                self._missing = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
                return None
            torch = self._torch or sys.modules["torch"]
            uuid = str(torch.cuda.get_device_properties(self._device).uuid)
            self._handle = gpu_handle(uuid, self._nvml)
            if self._handle is None:
                self._missing = "the driver's library does not know it"
        return self._handle

    def _count(self, workers: dict[int, list[int]], before: _Spent, now: _Spent) -> None:
        for number, pids in workers.items():
            both = [pid for pid in pids if pid in now.cpu and pid in before.cpu]
            if both:
                self._busy[number] += sum(now.cpu[pid] - before.cpu[pid] for pid in both)
                self._watched[number] += now.at - before.at

    # What became of it.

    def _worker_cpu(self, number: int) -> float | None:
        seconds = self._watched.get(number)
        return self._busy[number] / seconds if seconds else None

    def _empty(self, number: int) -> float | None:
        ready = self._ready.get(number)
        return 1 - sum(ready) / len(ready) if ready else None

    def _host_cpu(self) -> float | None:
        if len(self._host) < 2:
            return None
        (began, spent), (ended, spent_later) = self._host
        return min(1.0, (spent_later - spent) / (ended - began)) if ended > began else None

    def _unread(self) -> Iterator[str]:
        if self._missing is not None:
            yield f"the GPU's use, power, clocks and heat: {self._missing}"
        if self.fault is not None:
            why = f"{type(self.fault).__name__}: {self.fault}"
            yield f"readings of the machine after a while: hotloop's reader failed with {why}"


class _Spent:
    """What processes have used so far: CPU seconds and bytes read."""

    def __init__(self, at: float, cpu: dict[int, float], read_bytes: int | None) -> None:
        self.at, self.cpu, self.read = at, cpu, read_bytes

    @classmethod
    def of(cls, pids: set[int]) -> _Spent:
        cpu: dict[int, float] = {}
        read_bytes: int | None = None
        for pid in pids:
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                cpu[pid] = times.user + times.system
                if hasattr(process, "io_counters"):  # not on macOS
                    read_bytes = (read_bytes or 0) + process.io_counters().read_bytes
            except (psutil.Error, OSError):  # it has just ended, or access is denied
                continue
        return cls(time.perf_counter(), cpu, read_bytes)

    def since(self, before: _Spent) -> dict[str, float]:
        """Return the rates since `before`; a process that ended in between does not count."""
        seconds = self.at - before.at
        used = sum(max(0.0, cpu - before.cpu.get(pid, 0.0)) for pid, cpu in self.cpu.items())
        rates = {"cpu_cores": used / seconds}
        if self.read is not None and before.read is not None:
            rates["read_bytes_per_s"] = max(0, self.read - before.read) / seconds
        return rates


def _workers(iterator: Any) -> list[int]:
    """Return the ids of an iterator's worker processes."""
    try:
        return [worker.pid for worker in getattr(iterator, "_workers", None) or () if worker.pid]
    except ValueError:  # the process object was closed
        return []


def _is_ready(iterator: Any) -> bool | None:
    """Whether the requested batch is ready; None without workers, or for an epoch's first batch."""
    number = getattr(iterator, "_rcvd_idx", 0)
    task = getattr(iterator, "_task_info", {}).get(number)  # worker, and a batch that came early
    if not number or task is None:
        return None
    return len(task) > 1 or not iterator._data_queue.empty()


def _below(pid: int, proc: Path) -> list[int]:
    """Return the ids of all descendants of a process.

    They come from lists in /proc, because psutil would read every process of the machine 4 times a
    second. The lists lack the children of threads other than the main one.
    """
    try:
        text = (proc / f"{pid}/task/{pid}/children").read_text("ascii")
    except OSError:  # not Linux, not in this kernel, or it has just ended
        return []
    children = list(map(int, text.split()))
    return [*children, *(deeper for child in children for deeper in _below(child, proc))]


def _page_cache() -> float | None:
    memory = psutil.virtual_memory()
    cached = getattr(memory, "cached", None)
    return cached / memory.total if cached is not None else None


hide(globals())
