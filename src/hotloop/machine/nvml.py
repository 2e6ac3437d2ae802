"""Reads NVIDIA GPUs through NVML, their driver's library; unsupported readings are left out.

Source of units, names and bits: https://docs.nvidia.com/deploy/nvml-api/ (2026-11).
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["GpuIdentity", "GpuMemoryHolder", "ask", "gpus", "holders", "look", "traffic"]

SM_CLOCK, TEMPERATURE = 1, 0  # nvmlClockType_t, nvmlTemperatureSensors_t
SENT, RECEIVED = 0, 1  # nvmlPcieUtilCounter_t
REASONS = {  # nvmlClocksEventReasons; 0x1, an idle GPU, is not a reason
    0x002: "application_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """The constant facts of a GPU. Unknown is None."""

    handle: Any  # NVML's own
    index: int  # NVML's, which CUDA_VISIBLE_DEVICES does not change
    name: str | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemoryHolder:
    """A process that holds memory of a GPU."""

    pid: int  # in a container perhaps the host's pid
    memory_bytes: int | None  # None: the driver does not say


def gpus(nvml: Any) -> tuple[list[GpuIdentity], str | None]:
    """Return the GPUs, or none and the reason. `nvml` is the module; None if not installed."""
    if nvml is None:
        return [], "nvidia-ml-py is not installed: pip install 'hotloop[gpu]'"
    try:
        nvml.nvmlInit()
        handles = [
            (n, nvml.nvmlDeviceGetHandleByIndex(n)) for n in range(nvml.nvmlDeviceGetCount())
        ]
    except nvml.NVMLError as error:  # no library, no driver
        return [], f"the driver's library says: {error}"
    identities = [_gpu(nvml, index, handle) for index, handle in handles]
    return identities, None if identities else "the driver shows no GPU"


def _gpu(nvml: Any, index: int, handle: Any) -> GpuIdentity:
    name, memory = ask(nvml, handle, "Name"), ask(nvml, handle, "MemoryInfo")
    if isinstance(name, bytes):  # older versions of nvidia-ml-py
        name = name.decode(errors="replace")
    return GpuIdentity(
        handle=handle, index=index, name=name, memory_bytes=memory and int(memory.total)
    )


def holders(nvml: Any, handle: Any) -> list[GpuMemoryHolder] | None:
    """Return the processes that compute on a GPU, the largest first; None if unknown."""
    processes = ask(nvml, handle, "ComputeRunningProcesses")
    if processes is None:
        return None
    result = [GpuMemoryHolder(pid=one.pid, memory_bytes=one.usedGpuMemory) for one in processes]
    return sorted(result, key=lambda one: -(one.memory_bytes or 0))


def traffic(nvml: Any, handle: Any) -> dict[str, float]:
    """Return bytes/s over PCIe. The call blocks: the driver counts 20 ms in each direction."""
    kilobytes = {
        "pcie_sent_bytes_per_s": ask(nvml, handle, "PcieThroughput", SENT),
        "pcie_received_bytes_per_s": ask(nvml, handle, "PcieThroughput", RECEIVED),
    }
    return {name: 1000.0 * rate for name, rate in kilobytes.items() if rate is not None}


def ask(nvml: Any, handle: Any, name: str, *args: Any) -> Any:
    """Return the result of an NVML query; None if the GPU or the library does not support it."""
    call: Callable[..., Any] | None = getattr(nvml, f"nvmlDeviceGet{name}", None)
    try:
        return call(handle, *args) if call else None
    except nvml.NVMLError:  # not supported, or lost during the run
        return None


def look(nvml: Any, handle: Any, *, own: Collection[int]) -> tuple[dict[str, float], list[str]]:
    """Return the GPU's readings under the names of `Case.readings`, and why its clock is reduced.

    `nvml` is the module of nvidia-ml-py; `own` are the ids of the run's processes.
    """
    get = functools.partial(ask, nvml, handle)
    used, memory = get("UtilizationRates"), get("MemoryInfo")
    watts, limit = get("PowerUsage"), get("EnforcedPowerLimit")  # milliwatts
    others = get("ComputeRunningProcesses")
    values = {
        "gpu_utilisation": used and used.gpu / 100,
        "gpu_power_w": watts and watts / 1000,
        "gpu_power_limit_w": limit and limit / 1000,
        "gpu_clock_mhz": get("ClockInfo", SM_CLOCK),
        "gpu_max_clock_mhz": get("MaxClockInfo", SM_CLOCK),
        "gpu_temperature_c": get("Temperature", TEMPERATURE),
        "gpu_memory_bytes": memory and memory.used,
        "pcie_generation": get("CurrPcieLinkGeneration"),
        "pcie_generation_max": get("MaxPcieLinkGeneration"),
        "pcie_width": get("CurrPcieLinkWidth"),
        "pcie_width_max": get("MaxPcieLinkWidth"),
        "gpu_other_processes": None if others is None else _others([p.pid for p in others], own),
    }
    bits = get("CurrentClocksEventReasons")
    if bits is None:  # its older name
        bits = get("CurrentClocksThrottleReasons")
    reasons = [name for bit, name in REASONS.items() if (bits or 0) & bit]
    return {name: float(value) for name, value in values.items() if value is not None}, reasons


def _others(pids: list[int], own: Collection[int]) -> int:
    """Count processes that do not belong to the run.

    In a container the driver may give the host's ids; then one of them is this process.
    """
    if os.getpid() in pids:
        return sum(pid not in own for pid in pids)
    return max(0, len(pids) - 1)
