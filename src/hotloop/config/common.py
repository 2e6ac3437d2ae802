"""Settings that every recipe shares, their older spellings and their checks."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol

from hotloop.config.layers import SettingsLayer
from hotloop.config.schema import flatten, setting, setting_text
from hotloop.core.errors import ConfigError

__all__ = [
    "ALIASES",
    "ALL",
    "AUTO",
    "NOTHING_TO_MEMORY",
    "NO_WORKERS",
    "PRESET_MEANING",
    "Data",
    "Preset",
    "Shared",
    "Training",
    "check_shared",
    "deciding",
    "rates_crossed",
    "set_names",
    "warmup_too_long",
]

# How the five projects behind hotloop, and nanoGPT, spell the same settings.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "data.block_size": "model.context",
        "model.block_size": "model.context",
        "model.use_torch_compile": "training.use_compile",
        "training.grad_clip": "training.gradient_clip",
        "training.gradient_accumulation_steps": "training.accumulation",
        "training.lr": "training.learning_rate",
        "training.max_iters": "training.max_steps",
        "training.num_epochs": "training.epochs",
    }
)
NO_WORKERS = (  # data.num_workers, of a recipe that reads mapped files
    "has no effect: batches are cut from a memory-mapped file in microseconds and no loader "
    "process is started"
)
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
AUTO = "auto"
PRESET_MEANING = "values for a GPU; auto: by the machine; quick, best: auto, and less or more time"
ALL = "all"  # instead of a set's name: one run for each set
_SET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # it becomes the name of a folder
_TENTH = 10  # "min_lr = 1e-4 # learning_rate / 10 usually", nanoGPT's config, 2026-11; and warm-up
_NOTHING: Mapping[str, str] = MappingProxyType({})
How = Literal["published", "measured", "rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Settings of training. Times are in seconds; the schedule counts optimizer steps."""

    epochs: float | None = setting(
        None, "times through the training data", low=0, low_open=True, counts=True
    )
    max_steps: int | None = setting(None, "optimizer steps; with epochs, the first wins", low=1)
    max_time: float | None = setting(
        None, "save and stop after this time; resumable", low=0, low_open=True, duration=True
    )
    batch_size: int = setting(64, "samples per optimizer step, of all ranks together", low=1)
    accumulation: int = setting(1, "micro batches that make up one batch", low=1)
    learning_rate: float = setting(1e-3, "peak learning rate", low=0, low_open=True)
    min_learning_rate: float = setting(1e-4, "learning rate at the schedule's end", low=0)
    schedule: Literal["constant", "linear", "cosine"] = setting("cosine", "decay after warm-up")
    warmup_steps: int = setting(100, "optimizer steps up to the peak learning rate", low=0)
    warmup_share: float | None = setting(
        None, "the same as a share of all steps, in place of warmup_steps", low=0, high=0.9
    )
    optim: Literal["adamw_torch_fused", "adamw_8bit", "adafactor"] = setting(
        "adamw_torch_fused", "what updates the weights, by transformers' names"
    )
    weight_decay: float = setting(0.1, "decay of weight matrices", low=0)
    betas: tuple[float, float] = setting(
        (0.9, 0.99), "AdamW averaging factors", low=0, high=1, high_open=True
    )
    gradient_clip: float = setting(1.0, "largest gradient norm; 0 is off", low=0)
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto", "compute type; auto decides by capability"
    )
    use_compile: Literal["auto", "true", "false"] = setting("auto", "torch.compile per block")
    memory_fraction: float | None = setting(
        None, "share of device memory the run may take", low=0, low_open=True, high=1
    )
    eval_every_steps: int | None = setting(250, "validate every so many optimizer steps", low=1)
    eval_every_epochs: int | None = setting(None, "validate every so many epochs", low=1)
    eval_batches: int | None = setting(None, "batches per validation; null is all of it", low=1)
    patience: int | None = setting(
        None, "stop after so many validations without improvement", low=1
    )
    min_delta: float = setting(0.0, "a smaller fall of the loss is no improvement", low=0)
    save_every_steps: int | None = setting(None, "checkpoint every so many steps", low=1)
    save_every: float = setting(
        600.0, "checkpoint after this time", low=0, low_open=True, duration=True
    )
    best_cooldown: float | None = setting(
        None, "least time from a save to a new best's; null: 20 times a save", low=0, duration=True
    )
    keep: int = setting(2, "checkpoints kept", low=2)
    log_every: int = setting(10, "optimizer steps between progress lines", low=1)

    def fixed_saves(self, steps: int) -> int:
        """Return the number of checkpoints by step count in `steps` steps, first and last too."""
        return len({1, steps, *range(0, steps + 1, self.save_every_steps or steps)} - {0})

    def warmup(self, steps: int) -> int:
        """Return the optimizer steps of warm-up in a run of `steps` optimizer steps."""
        share = self.warmup_share
        return self.warmup_steps if share is None else round(share * steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Settings of the training data."""

    path: str | None = setting(None, "file or folder to train on")
    max_chars: int | None = setting(None, "read no more characters than this", low=1)
    drop_last: bool = setting(False, "leave out an epoch's last, smaller batch")
    num_workers: int = setting(0, "loader processes", low=0)
    sets: Mapping[str, str] = setting({}, "named data sets {name: path}")
    validation_share: float = setting(
        0.1, "share kept for validation, from the end", low=0, low_open=True, high=0.5
    )
    invalid: Literal["stop", "replace"] = setting("stop", "what to do at invalid text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Values for one GPU or experiment, each with its reason."""

    source: How
    values: Mapping[str, object]
    reasons: Mapping[str, str]
    sources: Mapping[str, How] = field(default_factory=dict)  # of values with another source

    def how(self, key: str) -> How:
        """Return the source of a value: published, measured or a rule."""
        return self.sources.get(key, self.source)

    def layer(self, origin: str) -> SettingsLayer:
        """Return the values as a layer whose origins state the source and reason of each value."""
        origins = {key: f"{origin} ({self.how(key)}): {self.reasons[key]}" for key in self.values}
        return SettingsLayer(origin=origin, values=self.values, origins=origins)


class Shared(Protocol):
    """The part of a configuration that all recipes share."""

    @property
    def training(self) -> Training:
        """Return the settings of training."""
        ...


def check_shared(
    config: Shared, origins: Mapping[str, str] = _NOTHING, more: Iterable[str] = ()
) -> None:
    """Raise ConfigError for shared settings that contradict each other, one line for each.

    `more` are further problems of the configuration, which join the error.
    """
    training = config.training

    def text(key: str) -> str:
        return setting_text(config, key, origins)

    problems = []
    if training.epochs is None and training.max_steps is None:
        problems.append("training has no end: set training.epochs or training.max_steps")
    if training.batch_size % training.accumulation:
        problems.append(
            f"{text('training.batch_size')} is not divisible by {text('training.accumulation')}:"
            " every micro batch must have the same size"
        )
    if warmup_too_long(training.warmup_steps, training.max_steps):
        problems.append(
            f"{text('training.warmup_steps')} is more than {text('training.max_steps')}:"
            " the peak learning rate would never be reached"
        )
    if training.warmup_share is not None and training.warmup_steps:
        problems.append(
            f"{text('training.warmup_share')} and {text('training.warmup_steps')}: leave one out"
        )
    if rates_crossed(training):
        problems.append(
            f"{text('training.min_learning_rate')} is above {text('training.learning_rate')}:"
            " lower it, or set training.schedule=constant"
        )
    if training.eval_every_steps and training.eval_every_epochs:
        problems.append(
            f"{text('training.eval_every_steps')} and {text('training.eval_every_epochs')}:"
            " set one of them to null"
        )
    if training.patience and not (training.eval_every_steps or training.eval_every_epochs):
        problems.append(
            f"{text('training.patience')} needs validation: set training.eval_every_steps"
        )
    problems += more
    if problems:
        raise ConfigError("\n".join(problems))


def set_names(config: Shared, names: Iterable[str], origins: Mapping[str, str]) -> list[str]:
    """Return a sentence for each name of a data set that is not valid as a folder's name."""
    sets = setting_text(config, "data.sets", origins)
    return [
        f"{sets}: {name!r} cannot be a set's name, which becomes a folder's: expected letters, "
        f"digits, _ . - and not {ALL!r}, which means every set"
        for name in names
        if name == ALL or not _SET_NAME.fullmatch(name)
    ]


def warmup_too_long(warmup_steps: int, max_steps: int | None) -> bool:
    """Return whether the learning rate would never reach its peak."""
    return max_steps is not None and warmup_steps > max_steps


def rates_crossed(training: Training) -> bool:
    """Return whether the lowest learning rate of a schedule is above the highest."""
    return training.schedule != "constant" and training.min_learning_rate > training.learning_rate


def deciding(config: Any) -> Mapping[str, object]:
    """Return the settings, by dotted key, that may change the memory of a step."""
    return {k: v for k, v in flatten(config).items() if k not in NOTHING_TO_MEMORY}
