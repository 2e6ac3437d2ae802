"""Presets of the language-model recipes by GPU memory, with the reason for every value."""

from collections.abc import Mapping
from types import MappingProxyType

from hotloop.config.common import Preset
from hotloop.config.gpu_presets import (
    LAYOUT,
    by_memory,
    efforts,
    presets_by_gpu,
    quick_test,
    same_batch,
)

__all__ = ["SFT_EFFORTS", "SFT_EXPERIMENTS", "SFT_PRESETS", "auto_sft"]

# Rows of a micro batch, by GB of memory: a larger one launches fewer kernels for each token. Chosen
# by the memory forecast; no speed was measured.
_SIZES = {12: 4, 16: 4, 24: 8, 80: 16}
_BATCH = 16  # rows of an optimizer step; the same on every GPU, so results do not depend on it
_gpu_preset = same_batch(_BATCH)
_CPU = Preset(
    source="rule",
    values={
        "training.batch_size": _BATCH,
        "training.accumulation": 4,
        "data.max_length": 512,
        "data.layout": "auto",
        "data.pad_to_multiple_of": 1,
    },
    reasons={
        "training.batch_size": "the same on every GPU",
        "training.accumulation": "as fast as one micro batch, with a quarter of its activations",
        "data.max_length": "attention grows with the square of it",
        "data.layout": LAYOUT,
        "data.pad_to_multiple_of": "a CPU has no units that want more",
    },
    sources={"training.accumulation": "measured"},
)
SFT_PRESETS = presets_by_gpu(_SIZES, _gpu_preset, cpu=_CPU)
auto_sft = by_memory(_SIZES, _gpu_preset, cpu=_CPU)
SFT_EFFORTS = efforts(
    quick={"training.epochs": (1, "a third of the epochs")},
    best={
        "training.epochs": (6, "twice the epochs"),
        "training.patience": (2, "ends where validations no longer improve"),
    },
)
SFT_EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick_test": quick_test(20, "a minute that shows whether everything works"),
    }
)
