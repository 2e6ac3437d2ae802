"""Configures pair-classifier, which learns labels of texts or of pairs of texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from hotloop.config.common import AUTO, PRESET_MEANING, Training, check_shared
from hotloop.config.resolver import Resolver
from hotloop.config.schema import idle, setting, setting_text
from hotloop.config.text_common import (
    IA3_RATE,
    NOT_PADDED,
    TEXT_ALIASES,
    Adapter,
    check_adapter,
    field_aliases,
    idle_text,
    is_typed,
    rate_by_method,
)
from hotloop.recipes.building.metrics import METRICS
from hotloop.recipes.pair_classifier.presets import EFFORTS, EXPERIMENTS, PRESETS

__all__ = [
    "CrossValidation",
    "PairClassifierConfig",
    "PairData",
    "PairModel",
    "check_pair_classifier",
    "fold_names",
    "idle_pair_classifier",
    "one_fold",
    "resolve_pair_classifier",
]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_POOLED = ("first-k", "last-k")
# By adapter.method. LoRA's: github.com/microsoft/LoRA, examples/NLU/roberta_base_mnli.sh, 2026-11.
# docs/defaults.md measures it on a narrower model, which takes more. DoRA has LoRA's.
_RATES = {"lora": 5e-4, "dora": 5e-4, "ia3": IA3_RATE}


# Keys of configurations of classifier projects with Hydra (2026-11).
PAIR_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **TEXT_ALIASES,
        **field_aliases(("text_a", "text_b", "label")),
        "model.pretrained_model_name_or_path": "model.name",
        "model.model_name_or_path": "model.name",
        "model.pooling_strategy": "model.pooling",
        "model.pooling_type": "model.pooling",
        "model.num_pooling_tokens": "model.pooling_tokens",
        "model.head_hidden_size": "model.head_width",
        "model.head_hidden_dim": "model.head_width",
        "model.classifier_dropout": "model.head_dropout",
        "model.attention_probs_dropout_prob": "model.attention_dropout",
        "data.train_path": "data.path",
        "data.train_file": "data.path",
        "data.val_path": "data.valid_path",
        "data.validation_path": "data.valid_path",
        "data.validation_file": "data.valid_path",
        "data.val_size": "data.validation_share",
        "data.val_split": "data.validation_share",
        "data.text_column": "data.text_a",
        "data.sentence1_key": "data.text_a",
        "data.sentence2_key": "data.text_b",
        "data.label_column": "data.label",
        "data.group_column": "data.group",
        "training.num_train_epochs": "training.epochs",
        "training.max_grad_norm": "training.gradient_clip",
        "training.early_stopping_patience": "training.patience",
        "training.early_stopping_min_delta": "training.min_delta",
        "training.early_stopping_threshold": "training.min_delta",
        "training.optimizer": "training.optim",
        "training.scheduler": "training.schedule",
        "training.metric_for_best_model": "metric",
        "training.class_weights": "class_weights",
        "cv.num_folds": "cv.folds",
        "cv.n_folds": "cv.folds",
        "cv.n_splits": "cv.folds",
        "cv.k": "cv.folds",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairModel:
    """A pretrained model without its language-model head, and what makes classes of its tokens."""

    name: str | None = setting(None, "folder or hub id of the pretrained model")
    pooling: Literal["mean", "cls", "max", "first-k", "last-k", "attention"] = setting(
        "mean", "how a text's tokens become one vector"
    )
    pooling_tokens: int = setting(1, "tokens of first-k and last-k", low=1)
    head_width: int | None = setting(None, "a hidden layer before the classes", low=1)
    head_dropout: float = setting(0.0, "share dropped before the head", low=0, high=0.9)
    attention_dropout: float | None = setting(
        None,
        "share of attention dropped; null: as the model says; 0: fast on GPUs",
        low=0,
        high=0.9,
    )
    bidirectional: bool = setting(False, "let a decoder's tokens see later ones")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairData:
    """Rows with one or two texts and a label; null finds the usual names of keys."""

    path: str | None = setting(None, "file or folder of rows to train on")
    valid_path: str | None = setting(None, "rows to validate on; null holds some of path out")
    validation_share: float = setting(
        0.1, "share of the rows held out", low=0, low_open=True, high=0.5
    )
    text_a: str | None = setting(None, "key of the first text")
    text_b: str | None = setting(
        AUTO, "key of the second text; auto: by its usual names; null: there is one text"
    )
    label: str | None = setting(None, "key of the label")
    group: str | None = setting(None, "key of a group: its rows stay in one part")
    report_by: str | None = setting(
        None, "key that scores are reported by; null: data.group, if that is set"
    )
    max_length: int = setting(256, "tokens of a row; what is longer is cut off", low=2)
    bad: Literal["stop", "skip"] = setting("stop", "what to do at a row that cannot be used")
    group_by_length: bool = setting(True, "rows of like length come together")
    layout: Literal["auto", "flat", "padded"] = setting(
        "flat", "batches without padding, or padded to their longest row; auto: by the padding"
    )
    pad_to_multiple_of: int = setting(
        8, "widths of padded batches are multiples of it, as matrix units like them", low=1
    )
    drop_last: bool = setting(False, "leave out an epoch's last, smaller batch")
    num_workers: int = setting(0, "loader processes", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """Each fold of the rows is held out once, in a run of its own."""

    folds: int | None = setting(
        None, "parts of the rows, of each class alike: a run for each", low=2
    )
    fold: int | None = setting(None, "only the run that holds this one out, from 1", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairClassifierConfig:
    """Everything that decides a pair-classifier run, but for the machine."""

    seed: int = setting(1337, "of the head, order and dropout", low=0, high=2**32 - 1)
    preset: str = setting(AUTO, PRESET_MEANING, choices=(AUTO, *PRESETS, *EFFORTS))
    experiment: str | None = setting(None, "values of a known experiment", choices=EXPERIMENTS)
    init_from: str | None = setting(None, "what an earlier run learned: a run or .safetensors")
    class_weights: Literal["none", "balanced"] = setting(
        "none", "balanced: a rare class counts as much as a frequent one"
    )
    metric: str = setting("macro_f1", "the best model has most of it", choices=METRICS)
    training: Training = field(
        default_factory=lambda: Training(
            epochs=3,
            batch_size=32,
            learning_rate=5e-5,
            min_learning_rate=0.0,
            schedule="linear",
            warmup_steps=0,
            warmup_share=0.06,
            weight_decay=0.01,
            betas=(0.9, 0.999),
            eval_every_steps=None,
            eval_every_epochs=1,
        )
    )
    data: PairData = field(default_factory=PairData)
    model: PairModel = field(default_factory=PairModel)
    adapter: Adapter = field(default_factory=Adapter)
    cv: CrossValidation = field(default_factory=CrossValidation)


def check_pair_classifier(
    config: PairClassifierConfig, origins: Mapping[str, str] = _NOTHING
) -> None:
    """Raise ConfigError for settings that contradict each other, one line for each."""
    problems = check_adapter(config, config.adapter, origins)
    if config.model.name is None:
        problems.append("model.name is missing: a folder of a pretrained model, or its hub id")
    if config.data.path is None:
        problems.append("data.path is missing: a file or folder of rows with a label")
    problems += _folds(config, origins)
    check_shared(config, origins, problems)


def _folds(config: PairClassifierConfig, origins: Mapping[str, str]) -> list[str]:
    cv = config.cv
    if cv.folds is not None and config.data.valid_path is not None:
        both = (setting_text(config, key, origins) for key in ("cv.folds", "data.valid_path"))
        return [f"{' and '.join(both)}: folds are of the rows of data.path; leave one of them out"]
    if cv.fold is not None and (cv.folds is None or cv.fold > cv.folds):
        fold = setting_text(config, "cv.fold", origins)
        return [f"{fold} needs cv.folds, of which it is one"]
    return []


def fold_names(config: PairClassifierConfig) -> Mapping[str, str]:
    """Return the runs of a cross-validation by name; empty where there is one run."""
    folds = config.cv.folds
    if folds is None or config.cv.fold is not None:
        return {}
    return {f"fold-{fold}": f"fold {fold} of {folds}" for fold in range(1, folds + 1)}


def one_fold(config: PairClassifierConfig, name: str) -> PairClassifierConfig:
    """Return the configuration of one fold of the cross-validation."""
    return replace(config, cv=replace(config.cv, fold=int(name.removeprefix("fold-"))))


def idle_pair_classifier(
    config: PairClassifierConfig, origins: Mapping[str, str]
) -> dict[str, str]:
    """Return, by key, the reason why a non-default setting has no effect."""
    whys = {}
    if config.model.pooling not in _POOLED:
        whys["model.pooling_tokens"] = f"has no effect with model.pooling={config.model.pooling}"
    whys |= idle_text(config.adapter)
    if config.data.layout == "flat" and is_typed(origins, "data.pad_to_multiple_of"):
        whys["data.pad_to_multiple_of"] = NOT_PADDED
    for key, value in (("data.valid_path", config.data.valid_path), ("cv.folds", config.cv.folds)):
        if value is not None:
            whys["data.validation_share"] = f"has no effect with {key}"
    return idle(config, origins, whys)


resolve_pair_classifier = Resolver(
    schema=PairClassifierConfig,
    aliases=PAIR_ALIASES,
    presets=PRESETS,
    efforts=EFFORTS,
    experiments=EXPERIMENTS,
    check=check_pair_classifier,
    derived=rate_by_method(_RATES),
)
