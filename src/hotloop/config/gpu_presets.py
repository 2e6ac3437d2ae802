"""The cards that recipes on pretrained models have presets for, by their memory."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hotloop.config.common import Preset
from hotloop.config.layers import SettingsLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.hardware import Hardware

__all__ = ["LAYOUT", "by_memory", "card_presets", "same_batch"]

GIB = 1 << 30
_USABLE = 0.93  # of a card's memory by name: what drivers leave
_CARDS = {  # GB; the names of char-lm
    "t4": 16,
    "12gb": 12,
    "16gb": 16,
    "24gb": 24,
    "rtx3090": 24,
    "rtx4080s": 16,
    "rtx4090": 24,
    "h100": 80,
}
LAYOUT = "padded where that adds 15 % at most: attention is one call a layer, faster on a CPU"


def card_presets(
    sizes: Mapping[int, int], preset: Callable[[str, int], Preset], *, cpu: Preset
) -> Mapping[str, Preset]:
    """Return the presets by name; `sizes` are rows of a micro batch by GB of memory."""
    cards = {name: preset(f"{memory} GB", sizes[memory]) for name, memory in _CARDS.items()}
    return MappingProxyType({**cards, "cpu": cpu})


def same_batch(rows: int) -> Callable[[str, int], Preset]:
    """Return the preset of a card whose step has `rows`: what is learned hangs on no card."""

    def preset(memory: str, micro: int) -> Preset:
        return Preset(
            source="rule",
            values={"training.batch_size": rows, "training.accumulation": rows // micro},
            reasons={
                "training.batch_size": "the same on every card",
                "training.accumulation": (
                    f"micro batches of {micro} rows for {memory}, not measured"
                ),
            },
        )

    return preset


def by_memory(
    sizes: Mapping[int, int], preset: Callable[[str, int], Preset], *, cpu: Preset
) -> Callable[[Hardware], SettingsLayer]:
    """Return what `preset=auto` sets, by the memory of the device: the card's below it in size."""

    def auto(hardware: Hardware) -> SettingsLayer:
        if hardware.device == "cpu":
            return cpu.layer("auto (CPU)")
        memory = (hardware.memory_bytes or 0) / GIB
        fitting = [size for least, size in sizes.items() if memory >= least * _USABLE]
        chosen = preset("", max(fitting, default=min(sizes.values()) // 2))
        why = f"{memory:.0f} GiB on {hardware.name}" if memory else "memory unknown"
        return SettingsLayer(origin=f"auto ({why})", values=chosen.values)

    return auto
