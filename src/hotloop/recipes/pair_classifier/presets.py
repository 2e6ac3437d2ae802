"""Presets of pair-classifier by GPU memory or experiment, with the reason for every value.

The experiments and their names are those of the project behind the recipe.
"""

from collections.abc import Mapping
from types import MappingProxyType

from hotloop.config.common import Preset
from hotloop.config.gpu_presets import LAYOUT, by_memory, presets_by_gpu, quick_test

__all__ = ["EXPERIMENTS", "PRESETS", "auto_pair_classifier"]

_SIZES = {12: 16, 16: 32, 24: 64, 80: 256}  # rows of a step, by GB of memory


def _gpu_preset(memory: str, batch_size: int) -> Preset:
    micro_batches = 4 if batch_size >= _SIZES[80] else 2
    return Preset(
        source="rule",
        values={"training.batch_size": batch_size, "training.accumulation": micro_batches},
        reasons={
            "training.batch_size": f"for {memory}, not measured",
            "training.accumulation": "so that a 0.6B decoder is forecast to fit",
        },
    )


_CPU = Preset(
    source="rule",
    values={
        "training.batch_size": 32,
        "training.accumulation": 2,
        "data.max_length": 128,
        "data.layout": "auto",
        "data.pad_to_multiple_of": 1,
    },
    reasons={
        "training.batch_size": "small steps: a model this small learns in a few hundred",
        "training.accumulation": "micro batches of 16 rows stay in the cache",
        "data.max_length": "attention grows with the square of it",
        "data.layout": LAYOUT,
        "data.pad_to_multiple_of": "a CPU has no units that want more",
    },
)
PRESETS = presets_by_gpu(_SIZES, _gpu_preset, cpu=_CPU)
auto_pair_classifier = by_memory(_SIZES, _gpu_preset, cpu=_CPU)
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
