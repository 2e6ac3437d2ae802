"""Presets of pair-classifier by GPU memory or experiment, with the reason for every value.

The experiments and their names are those of the project behind the recipe.
"""

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

__all__ = ["EFFORTS", "EXPERIMENTS", "PRESETS", "auto_pair_classifier"]

# Rows of a micro batch, by GB of memory, so that a 0.6B decoder is forecast to fit.
_SIZES = {12: 8, 16: 16, 24: 32, 80: 32}
_BATCH = 32  # rows of an optimizer step; the same on every GPU, so results do not depend on it
_gpu_preset = same_batch(_BATCH)
_CPU = Preset(
    source="rule",
    values={
        "training.batch_size": _BATCH,
        "training.accumulation": 2,
        "data.max_length": 128,
        "data.layout": "auto",
        "data.pad_to_multiple_of": 1,
    },
    reasons={
        "training.batch_size": "small steps: a model this small learns in a few hundred",
        "training.accumulation": "as fast as one micro batch, with half of its activations",
        "data.max_length": "attention grows with the square of it",
        "data.layout": LAYOUT,
        "data.pad_to_multiple_of": "a CPU has no units that want more",
    },
    sources={"training.accumulation": "measured"},
)
PRESETS = presets_by_gpu(_SIZES, _gpu_preset, cpu=_CPU)
auto_pair_classifier = by_memory(_SIZES, _gpu_preset, cpu=_CPU)
EFFORTS = efforts(
    quick={"training.epochs": (1, "a third of the epochs")},
    best={
        "training.epochs": (6, "twice the epochs"),
        "training.patience": (2, "ends where validations no longer improve"),
    },
)
EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick_test": quick_test(50, "a minute that shows whether everything works"),
        "full_5fold": Preset(
            source="rule",
            values={"cv.folds": 5, "training.patience": 3},
            reasons={
                "cv.folds": "how much a figure scatters with the rows that are held out",
                "training.patience": "each fold ends when it no longer improves",
            },
        ),
        "rtx3090_max_perf": Preset(
            source="rule",
            values={
                "training.batch_size": 64,
                "training.accumulation": 2,
                "training.precision": "bf16",
                "training.use_compile": "auto",
                "data.layout": "flat",
            },
            reasons={
                "training.batch_size": "for 24 GB, not measured",
                "training.accumulation": "so that a 0.6B decoder is forecast to fit",
                "training.precision": "bf16 runs on tensor cores from sm80 on",
                "training.use_compile": "where the run is long enough to pay it back",
                "data.layout": "no padding is computed",
            },
        ),
    }
)
