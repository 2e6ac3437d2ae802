"""Presets of task-router by GPU memory, with the reason for every value."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hotloop.config.common import Preset
from hotloop.config.gpu_presets import by_memory, efforts, presets_by_gpu, quick_test, same_batch

__all__ = ["EFFORTS", "EXPERIMENTS", "PRESETS", "auto_task_router"]

_SIZES = {12: 16, 16: 16, 24: 32, 80: 64}  # rows of a micro batch, by GB of memory
_BATCH = 64  # rows of an optimizer step; the same on every GPU, so results do not depend on it
_phase_1 = same_batch(_BATCH)


def _gpu_preset(memory: str, micro: int) -> Preset:
    preset = _phase_1(memory, micro)
    return replace(preset, values=_in_both(preset.values), reasons=_in_both(preset.reasons))


def _in_both(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of phase 1, and the same settings for phase 3."""
    return {**values, **{f"joint_{key}": value for key, value in values.items()}}


_CPU = Preset(
    source="rule",
    values={
        "training.batch_size": 32,
        "training.accumulation": 2,
        "joint_training.accumulation": 2,
        "data.pad_to_multiple_of": 1,
    },
    reasons={
        "training.batch_size": "small steps: adapters learn in some hundreds",
        "training.accumulation": "half of the activations of one micro batch",
        "joint_training.accumulation": "as in phase 1",
        "data.pad_to_multiple_of": "a CPU has no units that want more",
    },
)
PRESETS = presets_by_gpu(_SIZES, _gpu_preset, cpu=_CPU)
auto_task_router = by_memory(_SIZES, _gpu_preset, cpu=_CPU)
EFFORTS = efforts(
    quick={
        "training.epochs": (1, "half the epochs"),
        "router_training.epochs": (5, "half the epochs"),
    },
    best={
        "training.epochs": (4, "twice the epochs"),
        "joint_training.epochs": (2, "twice the epochs"),
    },
)
EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick_test": quick_test(
            20,
            "minutes that show whether everything works",
            sections=("training", "router_training", "joint_training"),
        ),
    }
)
