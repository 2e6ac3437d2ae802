"""Presets of the recipes on pretrained models: by GPU memory, and quick and best."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hotloop.config.common import Preset
from hotloop.config.layers import SettingsLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware

__all__ = ["LAYOUT", "by_memory", "efforts", "presets_by_gpu", "quick_test", "same_batch"]

GIB = 1 << 30
_USABLE = 0.93  # share of a GPU's nominal memory that drivers leave free
_GPUS = {  # name of the preset, as in char-lm -> GB
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


def presets_by_gpu(
    sizes: Mapping[int, int], preset: Callable[[str, int], Preset], *, cpu: Preset
) -> Mapping[str, Preset]:
    """Return the presets by name; `sizes` are the rows of `preset`, by GB of memory."""
    gpus = {name: preset(f"{memory} GB", sizes[memory]) for name, memory in _GPUS.items()}
    return MappingProxyType({**gpus, "cpu": cpu})


def quick_test(steps: int, why: str, *, sections: Sequence[str] = ("training",)) -> Preset:
    """Return the experiment of a few steps; `why` is the reason for their number."""
    settings: dict[str, tuple[object, str]] = {
        "epochs": (None, "the steps end it"),
        "max_steps": (steps, why),
        "log_every": (5, "a short run"),
    }
    keys = {f"{section}.{key}": row for section in sections for key, row in settings.items()}
    return Preset(
        source="rule",
        values={key: value for key, (value, _) in keys.items()},
        reasons={key: reason for key, (_, reason) in keys.items()},
    )


def efforts(
    *, quick: Mapping[str, tuple[object, str]], best: Mapping[str, tuple[object, str]]
) -> Mapping[str, Preset]:
    """Return the presets quick and best from {key: (value, reason)}; see docs/defaults.md."""
    return MappingProxyType(
        {
            name: Preset(
                source="rule",
                values={key: value for key, (value, _) in settings.items()},
                reasons={key: reason for key, (_, reason) in settings.items()},
            )
            for name, settings in (("quick", quick), ("best", best))
        }
    )


def same_batch(rows: int) -> Callable[[str, int], Preset]:
    """Return a preset factory with `rows` per optimizer step on every GPU.

    Only the micro batch depends on the GPU, so that the result of training does not.
    """

    def preset(memory: str, micro: int) -> Preset:
        return Preset(
            source="rule",
            values={"training.batch_size": rows, "training.accumulation": rows // micro},
            reasons={
                "training.batch_size": "the same on every GPU",
                "training.accumulation": (
                    f"micro batches of {micro} rows for {memory}, not measured"
                ),
            },
        )

    return preset


def by_memory(
    sizes: Mapping[int, int], preset: Callable[[str, int], Preset], *, cpu: Preset
) -> Callable[[Hardware], SettingsLayer]:
    """Return the function for `preset=auto`: the largest preset that fits the device's memory."""

    def auto(hardware: Hardware) -> SettingsLayer:
        if hardware.device == "cpu":
            return cpu.layer("auto (CPU)")
        memory = (hardware.memory_bytes or 0) / GIB
        fitting = [size for least, size in sizes.items() if memory >= least * _USABLE]
        chosen = preset("", max(fitting, default=min(sizes.values()) // 2))
        why = f"{memory:.0f} GiB on {hardware.name}" if memory else "memory unknown"
        return SettingsLayer(origin=f"auto ({why})", values=chosen.values)

    return auto
