"""Every constant that the scaling model takes from outside or assumes, with its source.

Read 2026-11 in stored copies of the pages. Peaks and memory bandwidths come from core/gpu_specs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIGURES", "Figure", "value"]

Source = Literal["measured", "published", "derived", "assumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One constant: what it is, in which unit, how it is known and from where."""

    what: str
    value: float
    unit: str
    source: Source
    where: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def _figure(what: str, value: float, unit: str, source: Source, where: str) -> Figure:
    return Figure(what=what, value=value, unit=unit, source=source, where=where)


_HGX = "https://www.nvidia.com/en-us/data-center/h100/"
_NCCL = "github.com/NVIDIA/nccl, src/graph/tuning.cc at 01afd20a77b5"
_TITAN = "github.com/pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md"
_RATE, _HOP = "GB/s", "us"

FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "nvlink4": _figure(
            "NVLink 4, a GPU and direction", 450, _RATE, "published", f"900 both ways, {_HGX}"
        ),
        "nvlink4_reached": _figure(
            "of it in NCCL's rings", 370, _RATE, "published",
            "sjeaugey, NVIDIA: github.com/NVIDIA/nccl-tests/issues/212",
        ),
        "nvlink3": _figure(
            "NVLink 3, a GPU and direction", 300, _RATE, "published",
            "600 both ways, NVIDIA A100 datasheet (core/gpu_specs.py)",
        ),
        "nvlink3_reached": _figure("of it in NCCL's rings", 235, _RATE, "published", _NCCL),
        "pcie4": _figure(
            "PCIe 4 x16, a direction", 31.5, _RATE, "derived",
            "16 lanes x 16 GT/s x 128/130 / 8, PCI-SIG; NCCL counts 24",
        ),
        "pcie4_reached": _figure(
            "of it through host memory, 8 GPUs", 12, _RATE, "assumed",
            "half of NCCL's 24, as data passes the host twice; 12.7 is shown for four GPUs in "
            "github.com/tinygrad/open-gpu-kernel-modules/pull/22",
        ),
        "net400": _figure("network of 400 Gb/s a GPU", 50, _RATE, "derived", "400 / 8"),
        "net400_reached": _figure(
            "of it in NCCL's rings", 47, _RATE, "published",
            "46 to 48, AddyLaddy, NVIDIA: github.com/NVIDIA/nccl-tests/issues/290",
        ),
        "net100": _figure("network of 100 Gb/s a GPU", 12.5, _RATE, "derived", "100 / 8"),
        "net100_reached": _figure(
            "of it in NCCL's rings", 12.2, _RATE, "published",
            "sjeaugey, NVIDIA: github.com/NVIDIA/nccl-tests/issues/29",
        ),
        "start": _figure("start of a collective (ring, simple)", 8.4, _HOP, "published", _NCCL),
        "hop_nvlink": _figure("each hop over NVLink", 3.4, _HOP, "published", _NCCL),
        "hop_pcie": _figure("each hop over PCIe", 5.7, _HOP, "published", _NCCL),
        "hop_net": _figure("each hop over the network", 9.6, _HOP, "published", _NCCL),
        "disk": _figure(
            "writing to one NVMe drive a machine", 3.5, _RATE, "published",
            "Samsung PM9A3 U.2, https://heise.de/-4720224",
        ),
        "share_large": _figure(
            "of the peak, 8 B", 0.39, "", "published", f"fsdp2, compile, H100 of 500 W: {_TITAN}"
        ),
        "share_small": _figure(
            "of the peak, below 1 B", 0.30, "", "assumed", "smaller products than those of 8 B"
        ),
        "memory_share": _figure(
            "of the memory bandwidth in AdamW", 0.8, "", "assumed", "an element-wise kernel"
        ),
        "memory_left": _figure(
            "of the memory by name that training has", 0.9, "", "assumed",
            "context, NCCL's buffers and fragmentation take the rest",
        ),
        "jitter_block": _figure(
            "spread of a block's time (log-normal)", 0.02, "", "assumed", "each block, each time"
        ),
        "jitter_rank": _figure(
            "spread of a GPU's speed in a step", 0.01, "", "assumed", "makes stragglers"
        ),
    }
)  # fmt: skip


def value(name: str) -> float:
    """Return a figure in seconds, bytes/s or as a share."""
    figure = FIGURES[name]
    return figure.value * {_RATE: 1e9, _HOP: 1e-6}.get(figure.unit, 1.0)
