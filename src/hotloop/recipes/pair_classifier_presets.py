"""What pair-classifier sets for a card or for a known experiment, with the reason for every value.

The experiments are those of the project behind the recipe, by its names.
"""

from collections.abc import Mapping
from types import MappingProxyType

from hotloop.core.hardware import Hardware
from hotloop.recipes.sections import Preset
from hotloop.recipes.sources import Layer

__all__ = ["EXPERIMENTS", "PRESETS", "auto_pair_classifier"]

GIB = 1 << 30


def _card(memory: str, batch_size: int) -> Preset:
    return Preset(
        source="rule",
        values={"training.batch_size": batch_size},
        reasons={"training.batch_size": f"for {memory}, not measured"},
    )


_CPU = Preset(
    source="rule",
    values={"training.batch_size": 32, "training.accumulation": 2, "data.max_length": 128},
    reasons={
        "training.batch_size": "small steps: a model this small learns in a few hundred",
        "training.accumulation": "micro batches of 16 rows stay in the cache",
        "data.max_length": "attention grows with the square of it",
    },
)
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "t4": _card("16 GB", 32),
        "rtx3090": _card("24 GB", 64),
        "rtx4080s": _card("16 GB", 48),
        "rtx4090": _card("24 GB", 64),
        "h100": _card("80 GB", 256),
        "cpu": _CPU,
    }
)
EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick_test": Preset(
            source="rule",
            values={"training.epochs": None, "training.max_steps": 50, "training.log_every": 5},
            reasons={
                "training.epochs": "the steps end it",
                "training.max_steps": "a minute that shows whether everything works",
                "training.log_every": "a short run",
            },
        ),
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
                "training.precision": "bf16",
                "training.use_compile": "auto",
                "data.layout": "flat",
            },
            reasons={
                "training.batch_size": "for 24 GB, not measured",
                "training.precision": "bf16 runs on tensor cores from sm80 on",
                "training.use_compile": "where the run is long enough to pay it back",
                "data.layout": "no padding is computed",
            },
        ),
    }
)


def auto_pair_classifier(hardware: Hardware) -> Layer:
    """Return what `preset=auto` sets: the batch, by the memory of the device.

    The sizes are those of the presets; a card's usable memory is a little under its name.
    """
    if hardware.device == "cpu":
        return _CPU.layer("auto (CPU)")
    memory = (hardware.memory_bytes or 0) / GIB
    batch = next((size for least, size in ((70, 256), (22, 64), (15, 32)) if memory >= least), 16)
    why = f"{memory:.0f} GiB on {hardware.name}" if memory else "memory unknown"
    return Layer(origin=f"auto ({why})", values={"training.batch_size": batch})
