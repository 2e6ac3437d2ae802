"""Detects this machine: its device, the cores and memory that cgroups allow, live readings."""

from __future__ import annotations

import functools
import importlib
import os
import platform
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.errors import DeviceError, did_you_mean
from hotloop.core.hardware import Device, Hardware
from hotloop.core.package import __version__
from hotloop.machine.nvml import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["detect", "gpu_handle", "groups", "host", "import_nvml", "read_text", "readings"]

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
DEVICES: tuple[Device, ...] = ("cuda", "mps", "cpu")  # in the order of preference of `auto`

# Flags that decide how fast a CPU multiplies; /proc/cpuinfo lists some 150 more.
_TELLING = re.compile(r"amx|asimd|avx|bf16|f16c|fma|i8mm|s?sse|sve")


def detect(
    device: str | None = None, *, proc: Path = PROC, cgroup: Path = CGROUP, torch: Any = None
) -> Hardware:
    """Describe this machine with `device` (cuda, cuda:1, mps, cpu; None or auto: the best).

    `proc`, `cgroup` and `torch` are seams: tests pass file trees and a stand-in. Raises DeviceError
    if a device is requested by name and does not exist.
    """
    if torch is None:
        import torch
    kind, index = _choose(device, torch)
    cpu = host(proc=proc, cgroup=cgroup, torch=torch)
    if kind == "cuda":
        return replace(cpu, device=kind, **_cuda(torch, index))
    if kind == "mps":
        limit = int(torch.mps.recommended_max_memory())
        return replace(cpu, device=kind, name=f"{cpu.name} GPU", memory_bytes=limit)
    return cpu


def host(*, proc: Path = PROC, cgroup: Path = CGROUP, torch: Any = None) -> Hardware:
    """Describe this machine without its GPUs, and without torch's versions unless it is given.

    `proc` and `cgroup` are seams.
    """
    name, features = _cpu(proc)
    memory = _host_memory(proc, cgroup)
    return Hardware(
        device="cpu",
        name=name,
        memory_bytes=memory,
        host_memory_bytes=memory,
        cores=_cores(proc, cgroup),
        cpu_features=features,
        versions=_versions(torch, proc),
    )


def readings(device: str, *, torch: Any = None, nvml: Any = None) -> dict[str, float | None]:
    """Return the present use of this process and its device; unknown values are None, never 0.

    Takes well under 1 ms after the first call and never raises because NVML is missing or lost.
    `torch` and `nvml` (the module of nvidia-ml-py) are seams.
    rss_bytes; cpu_percent (of one core, since the last call); device_bytes and device_peak_bytes
    (tensors in the caching allocator), device_reserved_peak_bytes (what it took from the driver);
    device_percent (share of time in which a kernel ran).
    """
    now: dict[str, float | None] = {
        "rss_bytes": float(_process(os.getpid()).memory_info().rss),
        "cpu_percent": _cpu_percent(),
        "device_bytes": None,
        "device_peak_bytes": None,
        "device_reserved_peak_bytes": None,
        "device_percent": None,
    }
    if device.startswith("cuda"):
        if torch is None:
            import torch
        stats = torch.cuda.memory_stats(device)
        now["device_bytes"] = stats.get("allocated_bytes.all.current")
        now["device_peak_bytes"] = stats.get("allocated_bytes.all.peak")
        now["device_reserved_peak_bytes"] = stats.get("reserved_bytes.all.peak")
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        now["device_percent"] = _gpu_percent(uuid, nvml or import_nvml())
    return now


def _choose(device: str | None, torch: Any) -> tuple[Device, int]:
    why_not = {kind: _why_missing(kind, torch) for kind in DEVICES}
    name, _, index = (device or "auto").partition(":")
    if name == "auto":
        return next(kind for kind in DEVICES if why_not[kind] is None), 0
    kind = next((choice for choice in DEVICES if choice == name), None)
    if kind is None or not (index or "0").isdecimal():
        hint = did_you_mean(name, ("auto", *DEVICES))
        raise DeviceError(f"device: expected auto, cuda, cuda:N, mps or cpu, got {device!r}{hint}")
    if reason := why_not[kind]:
        raise DeviceError(f"device {device} was asked for, but {reason}")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if int(index or 0) >= count:
        raise DeviceError(
            f"device {device} was asked for, but there is {count} (numbered from 0); "
            "check CUDA_VISIBLE_DEVICES"
        )
    return kind, int(index or 0)


def _why_missing(kind: Device, torch: Any) -> str | None:
    if kind == "cuda" and not torch.cuda.is_available():
        if torch.version.cuda is None and torch.version.hip is None:
            return (
                f"torch {torch.__version__} is built without CUDA: install a CUDA build "
                "(https://pytorch.org/get-started/locally/) or use device=cpu"
            )
        return "the driver shows no GPU: run nvidia-smi, check CUDA_VISIBLE_DEVICES, or use cpu"
    if kind == "mps" and not torch.backends.mps.is_available():
        return "this torch sees no Apple GPU: MPS needs macOS on Apple silicon, or use device=cpu"
    return None


def _cuda(torch: Any, index: int) -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(index)
    # ROCm reports gfx numbers as a capability; they say nothing about CUDA features.
    capability = (gpu.major, gpu.minor) if torch.version.hip is None else None
    return {
        "name": gpu.name,
        "count": torch.cuda.device_count(),
        "memory_bytes": gpu.total_memory,
        "capability": capability,
        "smem_bytes": getattr(gpu, "shared_memory_per_block_optin", None),
    }


def _versions(torch: Any, proc: Path) -> dict[str, str]:
    # "NVRM version: ... Kernel Module  535.104.05 ..."
    text = read_text(proc / "driver/nvidia/version")
    driver = re.search(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", text)
    versions = {
        "hotloop": __version__,
        "python": platform.python_version(),
        "torch": torch and torch.__version__,
        "platform": platform.platform(),
        "cuda": torch and torch.version.cuda,
        "hip": torch and torch.version.hip,
        "driver": torch and driver and driver[1],
    }
    return {name: str(version) for name, version in versions.items() if version}


def _cpu(proc: Path) -> tuple[str, frozenset[str]]:
    text = read_text(proc / "cpuinfo")
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    telling = {flag for flag in (flags[1].split() if flags else ()) if _TELLING.match(flag)}
    fallback = platform.processor() or platform.machine() or "unknown CPU"
    return (name[1].strip() if name else fallback), frozenset(telling)


def _cores(proc: Path, cgroup: Path) -> float | None:
    """Return the cores that this process may use: the smaller of affinity and quota."""
    allowed = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
    limits = [*_quotas(proc, cgroup), allowed or os.cpu_count()]
    return min((limit for limit in limits if limit), default=None)


def _quotas(proc: Path, cgroup: Path) -> Iterator[float]:
    """Yield the CPU quota, in cores, of every cgroup around this process that has one."""
    for folder in groups("cpu", proc, cgroup):
        both = read_text(folder / "cpu.max").split()  # v2: "quota period" or "max period"
        if not both:
            both = [
                read_text(folder / f"cpu.cfs_{part}_us").strip() for part in ("quota", "period")
            ]
        quota, period = (_number(part) for part in (*both, "", "")[:2])
        if quota and period and quota > 0:  # v1 says -1 for none
            yield quota / period


def _host_memory(proc: Path, cgroup: Path) -> int | None:
    """Return the most bytes that this process may have: physical memory or the smallest limit."""
    physical = re.search(r"^MemTotal:\s+(\d+) kB", read_text(proc / "meminfo"), re.MULTILINE)
    limits = [int(physical[1]) * 1024 if physical else psutil.virtual_memory().total]
    for folder in groups("memory", proc, cgroup):
        for name in ("memory.max", "memory.limit_in_bytes"):  # v2, v1
            limits.append(_number(read_text(folder / name)) or 0)
    return min((limit for limit in limits if limit > 0), default=None)


def groups(controller: str, proc: Path = PROC, cgroup: Path = CGROUP) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and of all its parents, v1 and v2.

    In a container the path of /proc/self/cgroup may not exist below the mount; then only the
    mount itself, which is the container's own group, has the files.
    """
    for line in read_text(proc / "self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            roots = [cgroup, cgroup / "unified"]
        elif controller in controllers.split(","):
            roots = [cgroup / controllers, cgroup / controller]
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", ".", "..")]
        for root in roots:
            for depth in range(len(names), -1, -1):
                yield root.joinpath(*names[:depth])


def read_text(path: Path) -> str:
    """Return a kernel file's text; "" if it is absent or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:  # "max", or empty
        return None


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> psutil.Process:  # keyed by pid: a forked child is another process
    return psutil.Process(pid)


_last: dict[int, tuple[float, float]] = {}  # pid -> (wall, CPU) seconds at the last reading


def _cpu_percent() -> float | None:
    pid, now = os.getpid(), (time.perf_counter(), time.process_time())
    before = _last.get(pid)
    _last.clear()
    _last[pid] = now
    if before is None or now[0] <= before[0]:
        return None
    return 100 * (now[1] - before[1]) / (now[0] - before[0])


@functools.lru_cache(maxsize=1)
def import_nvml() -> Any:
    """Return the module of nvidia-ml-py, or None if it is not installed."""
    try:
        return importlib.import_module("pynvml")  # the module name of nvidia-ml-py
    except ImportError:
        return None


@functools.lru_cache(maxsize=8)
def gpu_handle(uuid: str, nvml: Any) -> Any:
    """Return NVML's handle by uuid: CUDA_VISIBLE_DEVICES renumbers the GPUs for CUDA."""
    try:
        nvml.nvmlInit()
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:  # no library, no driver, or a MIG slice: cached
        return None


def _gpu_percent(uuid: str, nvml: Any) -> float | None:
    handle = gpu_handle(uuid, nvml) if nvml else None
    rates = None if handle is None else ask(nvml, handle, "UtilizationRates")
    return None if rates is None else float(rates.gpu)
