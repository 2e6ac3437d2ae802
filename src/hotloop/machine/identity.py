"""The identity of a measurement: this machine and the versions that decide its speed. No torch."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from hotloop.core.env import named
from hotloop.core.package import __version__
from hotloop.machine import nvml
from hotloop.machine.detect import host, import_nvml

__all__ = ["identity"]


def identity(*, driver: Any = None) -> dict[str, str]:
    """Return the processor, its cores, the GPUs and the versions of hotloop and torch.

    Missing entries are left out. `driver` is a seam: the module of nvidia-ml-py.
    """
    machine = host()
    gpus, _ = nvml.gpus(driver if driver is not None else import_nvml())
    names = sorted(gpu.name or "unknown" for gpu in gpus)
    facts = {
        "processor": machine.name,
        "cores": None if machine.cores is None else f"{machine.cores:g}",
        "GPUs": ", ".join(names),
        "visible GPUs": named(["CUDA_VISIBLE_DEVICES"]).get("CUDA_VISIBLE_DEVICES"),
        "hotloop": __version__,
        "torch": _version("torch"),
    }
    return {name: value for name, value in facts.items() if value}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
