"""Samples the host, GPUs, processes and run that are watched."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.errors import DataError, UsageError
from hotloop.machine.clock import clock
from hotloop.machine.detect import host
from hotloop.machine.nvml import gpus, holders, look, traffic
from hotloop.monitor.host import HostReading
from hotloop.monitor.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.machine.nvml import GpuIdentity
    from hotloop.monitor.run import RunReader, RunReading

__all__ = ["EXPECTED", "Held", "MachineSample", "ReadingSampler"]

EXPECTED = (  # readings of a GPU; missing ones are listed as unknown
    "utilisation_percent",
    "power_w",
    "power_limit_w",
    "clock_mhz",
    "max_clock_mhz",
    "temperature_c",
    "memory_bytes",
    "pcie_generation",
    "pcie_width",
    "pcie_sent_bytes_per_s",
    "pcie_received_bytes_per_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Memory of a GPU that a process holds."""

    pid: int
    name: str | None  # None: another user's, or a process outside this container
    memory_bytes: int | None  # None: unknown to the driver
    watched: bool  # whether the process is watched


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSample:
    """The readings of one moment. A missing name is unknown, never 0."""

    at: float  # seconds since the monitor began
    values: Mapping[str, float]  # a name ends with the unit; gpu0_ is the GPU with index 0
    slowed: Mapping[int, Sequence[str]] = field(default_factory=dict)  # GPU index -> reasons
    held: Mapping[int, Sequence[Held]] = field(default_factory=dict)  # GPU index -> processes
    run: RunReading | None = None
    trouble: str | None = None  # why the run could not be read this time


class ReadingSampler:
    """Takes samples. `nvml` is the module of nvidia-ml-py or None; it and `now` are seams."""

    def __init__(
        self,
        *,
        tree: Tree | None = None,
        run: RunReader | None = None,
        nvml: Any = None,
        now: Callable[[], float] = clock,
    ) -> None:
        self.machine: Hardware = host()
        self.gpus: Sequence[GpuIdentity]
        self.gpus, self.no_gpus = gpus(nvml)
        self.tree, self.run = tree, run
        self._nvml, self._now = nvml, now
        self._host = HostReading(memory=self.machine.host_memory_bytes)
        self._names: dict[int, str | None] = {}
        self._began = now()
        self.spent = 0.0  # CPU seconds of this process for taking samples

    def take(self) -> MachineSample:
        """Take one sample; rates are those since the previous one."""
        began = time.process_time()
        sample = self._read_all()
        self.spent += time.process_time() - began
        return sample

    def _read_all(self) -> MachineSample:
        values = self._host.read()
        if self.tree is not None:
            values |= self.tree.read()
        slowed: dict[int, Sequence[str]] = {}
        held: dict[int, Sequence[Held]] = {}
        for gpu in self.gpus:
            readings, reasons = self._gpu(gpu)
            values |= {f"gpu{gpu.index}_{name}": value for name, value in readings.items()}
            slowed[gpu.index] = reasons
            if (processes := holders(self._nvml, gpu.handle)) is not None:
                held[gpu.index] = [
                    Held(
                        pid=process.pid,
                        name=self._name(process.pid),
                        memory_bytes=process.memory_bytes,
                        watched=self.tree is not None and process.pid in self.tree.pids,
                    )
                    for process in processes
                ]
        run, trouble = self._look_at_run(values.get("process_cpu_cores"))
        self._follow(run)
        values |= _run_readings(run)
        elapsed = self._now() - self._began
        return MachineSample(
            at=elapsed, values=values, slowed=slowed, held=held, run=run, trouble=trouble
        )

    def _gpu(self, gpu: GpuIdentity) -> tuple[dict[str, float], Sequence[str]]:
        """Return the readings of a GPU by the names of EXPECTED, and why it is slowed."""
        raw_readings, reasons = look(self._nvml, gpu.handle, own=())
        readings = {name.removeprefix("gpu_"): value for name, value in raw_readings.items()}
        readings.pop("other_processes", None)  # `holders` names them
        if (busy := readings.pop("utilisation", None)) is not None:
            readings["utilisation_percent"] = 100 * busy
        return {**readings, **traffic(self._nvml, gpu.handle)}, reasons

    def _look_at_run(self, cores: float | None) -> tuple[RunReading | None, str | None]:
        if self.run is None:
            return None, None
        paused = self.tree is not None and self.tree.paused()
        try:
            return self.run.read(cores=cores, paused=paused), None
        except DataError as error:  # a damaged event must not end watching the machine
            return None, str(error)

    def _follow(self, run: RunReading | None) -> None:
        """Watch the current process of the run, which changes after a resume."""
        if run is None or run.pid is None or (self.tree is not None and self.tree.pid == run.pid):
            return
        with contextlib.suppress(UsageError):  # it has just ended
            self.tree = Tree(run.pid)

    def _name(self, pid: int) -> str | None:
        if pid not in self._names:
            try:
                self._names[pid] = psutil.Process(pid).name()
            except (psutil.Error, OSError):
                self._names[pid] = None
        return self._names[pid]


def _run_readings(run: RunReading | None) -> dict[str, float]:
    if run is None or run.pace is None or not run.running:
        return {}
    return {
        "run_step": float(run.step),
        "run_steps_per_s": run.pace.steps_per_s,
        "run_tokens_per_s": run.pace.tokens_per_s,
        "run_data_wait_percent": 100 * run.pace.shares.get("data", 0.0),
    }
