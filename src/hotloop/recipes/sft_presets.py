"""What the recipes on language models set for a card, with the reason for every value."""

from collections.abc import Mapping
from types import MappingProxyType

from hotloop.core.hardware import Hardware
from hotloop.recipes.sections import Preset
from hotloop.recipes.sources import Layer

__all__ = ["SFT_EXPERIMENTS", "SFT_PRESETS", "auto_sft"]

GIB = 1 << 30
_BATCH = 16  # rows of an optimizer step: what is learned must not depend on the card


def _card(memory: str, micro: int) -> Preset:
    return Preset(
        source="rule",
        values={"training.batch_size": _BATCH, "training.accumulation": _BATCH // micro},
        reasons={
            "training.batch_size": "the same on every card",
            "training.accumulation": f"micro batches of {micro} rows for {memory}, not measured",
        },
    )


_CPU = Preset(
    source="rule",
    values={"training.batch_size": _BATCH, "training.accumulation": 4, "data.max_length": 512},
    reasons={
        "training.batch_size": "the same on every card",
        "training.accumulation": "micro batches of 4 rows stay in the cache",
        "data.max_length": "attention grows with the square of it",
    },
)
SFT_PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "t4": _card("16 GB", 2),
        "rtx3090": _card("24 GB", 4),
        "rtx4080s": _card("16 GB", 2),
        "rtx4090": _card("24 GB", 4),
        "h100": _card("80 GB", 16),
        "cpu": _CPU,
    }
)
SFT_EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "quick_test": Preset(
            source="rule",
            values={"training.epochs": None, "training.max_steps": 20, "training.log_every": 5},
            reasons={
                "training.epochs": "the steps end it",
                "training.max_steps": "a minute that shows whether everything works",
                "training.log_every": "a short run",
            },
        ),
    }
)


def auto_sft(hardware: Hardware) -> Layer:
    """Return what `preset=auto` sets: the micro batch, by the memory of the device."""
    if hardware.device == "cpu":
        return _CPU.layer("auto (CPU)")
    memory = (hardware.memory_bytes or 0) / GIB
    micro = next((size for least, size in ((70, 16), (22, 4), (15, 2)) if memory >= least), 1)
    why = f"{memory:.0f} GiB on {hardware.name}" if memory else "memory unknown"
    return Layer(
        origin=f"auto ({why})",
        values={"training.batch_size": _BATCH, "training.accumulation": _BATCH // micro},
    )
