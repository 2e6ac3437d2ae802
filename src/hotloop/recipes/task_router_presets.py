"""What task-router sets for a card, with the reason for every value."""

from hotloop.recipes.sections import Preset
from hotloop.recipes.text_presets import by_memory, card_presets

__all__ = ["PRESETS", "auto_task_router"]

_SIZES = {12: 16, 16: 32, 24: 32, 80: 64}  # rows of a micro batch, by GB of memory
_BATCH = 64  # rows of an optimizer step: what is learned must not depend on the card


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
    values={
        "training.batch_size": 32,
        "training.accumulation": 2,
        "data.pad_to_multiple_of": 1,
    },
    reasons={
        "training.batch_size": "small steps: adapters learn in some hundreds",
        "training.accumulation": "micro batches of 16 rows stay in the cache",
        "data.pad_to_multiple_of": "a CPU has no units that want more",
    },
)
PRESETS = card_presets(_SIZES, _card, cpu=_CPU)
auto_task_router = by_memory(_SIZES, _card, cpu=_CPU)
