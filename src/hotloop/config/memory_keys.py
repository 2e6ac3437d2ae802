"""Selects the settings that can change the memory of a training step: the key of a forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.config.schema import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOTHING_TO_MEMORY", "deciding"]

# A key that is not listed belongs to the forecast's key, so that a new setting can only cause an
# unnecessary forecast, never a wrong one. The plan (micro batch, accumulation, precision) and the
# shape of a sample are separate parts of that key.
NOTHING_TO_MEMORY = frozenset(
    {
        "seed",
        "preset",
        "experiment",
        "dataset",
        "init_from",
        "data.path",
        "data.sets",
        "data.max_chars",
        "data.validation_share",
        "data.invalid",
        "data.drop_last",
        "data.num_workers",
        "training.epochs",
        "training.max_steps",
        "training.max_time",
        "training.batch_size",
        "training.accumulation",
        "training.learning_rate",
        "training.min_learning_rate",
        "training.schedule",
        "training.warmup_steps",
        "training.warmup_share",
        "training.weight_decay",
        "training.betas",
        "training.gradient_clip",
        "training.precision",
        "training.use_compile",
        "training.memory_fraction",
        "training.eval_every_steps",
        "training.eval_every_epochs",
        "training.eval_batches",
        "training.patience",
        "training.min_delta",
        "training.save_every_steps",
        "training.save_every",
        "training.best_cooldown",
        "training.keep",
        "training.log_every",
    }
)


def deciding(config: Any) -> Mapping[str, object]:
    """Return the settings, by dotted key, that may change the memory of a step."""
    return {k: v for k, v in flatten(config).items() if k not in NOTHING_TO_MEMORY}
