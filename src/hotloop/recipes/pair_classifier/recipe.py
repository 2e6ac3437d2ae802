"""The pair-classifier recipe: labels of texts, or of pairs of texts, by a pretrained model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import cross_entropy

from hotloop.config.common import AUTO
from hotloop.core.errors import ConfigError
from hotloop.core.units import many
from hotloop.data.sampling.label_classes import balanced
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import FILLERS, NO_LOSS, TokenRows
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.held import adapters_held
from hotloop.models.attention_proofs import sees_ahead
from hotloop.models.backbone import load_backbone
from hotloop.models.classifier import Classifier
from hotloop.models.confusion_counts import confusion
from hotloop.models.pooling import Pooling
from hotloop.models.trainable_parameters import check_trainable
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.metrics import METRICS, positive_class, report
from hotloop.recipes.building.optimizers import optimizer_of, state_bytes
from hotloop.recipes.building.pretrained import (
    adapters_of,
    choices,
    first_row_text,
    is_frozen,
    isolation,
    pads_much,
)
from hotloop.recipes.pair_classifier.baselines import MOST, row_baselines, scores_text, tested
from hotloop.recipes.pair_classifier.class_table import GROUPS, weakest
from hotloop.recipes.pair_classifier.rows import form_of, prepare_data
from hotloop.session.job import Job, ValidationMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from hotloop.data.sampling.labelled_rows import Labelled
    from hotloop.data.sampling.token_rows import Form
    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.building.metrics import Scores
    from hotloop.recipes.pair_classifier.config import PairClassifierConfig

__all__ = ["build", "prepare_data", "rebuilt"]

_HEAD = ("head", "pooling")  # modules of a Classifier that are new and so always trained
_TWO_CLASSES = ("f1", "precision", "recall")  # metrics of the positive of two classes


def _low(
    config: PairClassifierConfig, classes: int, dtype: torch.dtype, weights: bool
) -> Classifier:
    return _model(config, classes, weights=weights, low=dtype)


def _model(
    config: PairClassifierConfig,
    classes: int,
    *,
    weights: bool = True,
    low: torch.dtype | None = None,
) -> Classifier:
    """Return the classifier on the CPU: a pretrained backbone, and a head from torch's global RNG.

    `weights=False` reads no pretrained weights, for forecasts. `low` is the dtype of the backbone's
    matrices: of frozen ones, if there are adapters. Raises ConfigError for a decoder whose
    attention contradicts model.bidirectional.
    """
    model, adapter = config.model, config.adapter
    base_model = find_model(str(model.name))
    backbone = load_backbone(
        base_model,
        head=False,
        isolation=isolation(),
        weights=weights,
        low=low,
        trains=adapter.method == "none",
        bidirectional=model.bidirectional,
        attention_dropout=model.attention_dropout,
        seed=config.seed,
    )
    if weights and base_model.is_decoder and sees_ahead(backbone) != model.bidirectional:
        raise ConfigError(
            f"model.bidirectional={str(model.bidirectional).lower()}, but a later token "
            f"{'changes no' if model.bidirectional else 'changes an'} earlier output of "
            f"{base_model.name}: take another model"
        )
    if adapter.method != "none":
        attach(backbone.model, adapters_of(adapter, config.seed))
    pooling = Pooling(model.pooling, width=backbone.width, tokens=model.pooling_tokens)
    hidden = () if model.head_width is None else (model.head_width,)
    return Classifier(backbone, pooling, classes=classes, hidden=hidden, dropout=model.head_dropout)


def rebuilt(config: PairClassifierConfig, kept: Mapping[str, str]) -> Classifier:
    """Return the model of a run without the weights that the run learned; the caller loads them.

    Raises DataError where the frozen weights have changed since the run.
    """
    saved, base_model = json.loads(kept["classes.json"]), find_model(str(config.model.name))
    frozen = is_frozen(config.adapter, base_model, saved["model"])
    return _model(config, len(saved["classes"]), weights=frozen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """Mean cross-entropy of a batch; in a validation, it adds to the counts in place."""

    weights: tuple[float, ...] | None  # of the classes; a row has the weight of its class
    # The weights on each device: a copy from a list makes the host wait for the GPU.
    _copied: dict[torch.device, Tensor] = field(default_factory=dict, init=False, compare=False)

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        logits, labels = model(batch).float(), batch["label"]
        if "counts" in batch:
            confusion(logits, labels, batch.get("group"), batch["counts"])
        if self.weights is None:
            return cross_entropy(logits, labels)
        # The mean is over rows, not over weights, so that micro batches add up to their batch.
        weights = self._weights_on(logits)
        total: Tensor = cross_entropy(logits, labels, weight=weights, reduction="sum")
        return total / (labels != NO_LOSS).sum()

    def _weights_on(self, logits: Tensor) -> Tensor:
        """Return the float32 weights of the classes on the device of the logits, [classes]."""
        if isinstance(logits, FakeTensor):  # of a forecast; training must not get it
            return logits.new_tensor(self.weights)
        if logits.device not in self._copied:
            with torch.inference_mode(False):  # a validation may come first, training shares it
                self._copied[logits.device] = torch.tensor(self.weights, device=logits.device)
        return self._copied[logits.device]


def _figures(data: Labelled, silent: list[str], counts: Tensor) -> dict[str, float | None]:
    """Return the metrics; put the classes that have rows and are never predicted into `silent`."""
    of_rows, of_answers = counts.sum((0, 2)).tolist(), counts.sum((0, 1)).tolist()
    names = zip(data.classes.names, of_rows, of_answers, strict=True)
    silent[:] = [
        f"{name} ({many(rows, 'row')})" for name, rows, answers in names if rows and not answers
    ]
    scores = report(counts.numpy(), names=data.classes.names, groups=data.groups)
    metrics = [m for m in METRICS if scores.whole.positive is not None or m not in _TWO_CLASSES]
    groups = weakest(scores)[:GROUPS]
    group_figures = {f"macro_f1 of {name}": group.macro_f1 for name, group in groups}
    return {**{name: scores.whole.value(name) for name in metrics}, **group_figures}


def _groups(data: Labelled, counts: Tensor) -> dict[str, dict[str, float | None]]:
    """Return the scores of each group, the weakest first."""
    scores = report(counts.numpy(), names=data.classes.names, groups=data.groups)
    return {
        name: {
            "rows": group.rows,
            "accuracy": group.accuracy,
            "macro_f1": group.macro_f1,
            "weighted_f1": group.weighted_f1,
        }
        for name, group in weakest(scores)
        if group.rows
    }


def _judge(
    config: PairClassifierConfig, data: Labelled, to_beat: Mapping[str, Scores]
) -> ValidationMetrics:
    names = data.classes.names
    if config.metric in _TWO_CLASSES and positive_class(names) is None:
        raise ConfigError(
            f"metric={config.metric} is of the positive one of two classes, and there are "
            f"{len(names)}: metric=macro_f1"
        )
    shape = max(1, len(data.groups)), len(names), len(names)
    silent: list[str] = []
    return ValidationMetrics(
        start=lambda device: torch.zeros(shape, dtype=torch.int64, device=device),
        figures=partial(_figures, data, silent),
        score=config.metric,
        groups=partial(_groups, data) if data.groups else None,
        right=lambda counts: counts.sum(0).diagonal().tolist(),
        closing=partial(_closing, config, to_beat, silent),
    )


def _closing(
    config: PairClassifierConfig,
    to_beat: Mapping[str, Scores],
    silent: Sequence[str],
    best: float | None,
) -> list[str]:
    """Return what is to be said against a finished model."""
    said, metric = [], config.metric
    scores = {name: each.value(metric) for name, each in to_beat.items()}
    known = {name: value for name, value in scores.items() if value is not None}
    name = max(known, key=known.__getitem__, default=None)
    if best is not None and name is not None and best <= known[name]:
        rows = many(to_beat[name].rows, "validation row")
        said.append(
            f"{metric} of the best validation is {best:.3f}, and a baseline ({name}) reaches "
            f"{known[name]:.3f} on {rows}: the model does no better than it. Look at "
            "training.learning_rate, training.epochs, data.max_length and the labels"
        )
    if silent:
        text = f"the last validation never predicts {', '.join(silent)}"
        if config.class_weights != "balanced":
            text += ": class_weights=balanced counts a rare class as much as a frequent one"
        said.append(text)
    return said


def build(config: PairClassifierConfig, data: Labelled) -> Job:
    """Return the job that maps rows of the data to their labels."""
    training, classes = config.training, len(data.classes.names)
    base_model = find_model(str(config.model.name))

    def rows(part: Part, form: Form, *, shuffle: bool) -> TokenRows:
        return TokenRows(
            data.store,
            part.split,
            form=form,
            seed=config.seed,
            shuffle=shuffle,
            like=training.batch_size if config.data.group_by_length else None,
            rows=part.rows,
            beside=part.columns,
        )

    counts = data.train.counts(classes)
    form = form_of(config, base_model)
    train = rows(data.train, form, shuffle=True)
    if config.data.layout == AUTO and pads_much(train, training):
        form = replace(form, layout="flat")
        train = rows(data.train, form, shuffle=True)
    to_beat = _to_beat(data)
    low, adapts = partial(_low, config, classes), config.adapter.method != "none"
    return Job(
        name="pair-classifier",
        model=lambda: _model(config, classes),
        loss=_Loss(weights=_weights(config, data, counts)),
        optimizer=optimizer_of(training),
        state_bytes=state_bytes(training),
        train=train,
        valid=rows(data.valid, form, shuffle=False),
        seed=config.seed,
        cut=by_tokens,
        judge=_judge(config, data, to_beat),
        objective=f"one of {classes} classes by {base_model.fingerprint}",
        widest=train.widest,
        steady=adapters_held,
        choices=choices,
        fillers={**FILLERS, "label": NO_LOSS, "group": 0},
        learns_tokens=False,
        learns_all=True,
        skeleton=lambda: _model(config, classes, weights=False),
        frozen=low if adapts else None,
        trained=None if adapts else low,
        vocabulary=base_model.vocabulary,
        guesses=classes,
        kept={"classes.json": json.dumps(_saved_classes(data, base_model))},
        example=partial(_excerpt, data, base_model, train),
        facts={
            "objective": f"one of {classes} classes: {_class_shares(data, counts.tolist())}",
            "data": _row_counts(data, train),
            "to beat": _baseline_text(data, to_beat),
            "trains": _trainable_text(config, classes),
        },
    )


def _weights(
    config: PairClassifierConfig, data: Labelled, counts: NDArray[np.int64]
) -> tuple[float, ...] | None:
    """Return the weights of the classes, by their training rows; None: all are 1."""
    if config.class_weights != "balanced":
        return None
    return tuple(balanced(counts, names=data.classes.names).tolist())


def _to_beat(data: Labelled) -> dict[str, Scores]:
    """Return the scores of the baselines on the validation rows."""
    train, valid = tested(data, data.train), tested(data, data.valid)
    return row_baselines(train, valid, names=data.classes.names)


def _saved_classes(data: Labelled, base_model: FoundModel) -> dict[str, Any]:
    """Return the contents of classes.json: the classes of the logits, groups and the model."""
    return {"classes": data.classes.labels, "groups": data.groups, "model": base_model.fingerprint}


def _baseline_text(data: Labelled, scores: Mapping[str, Scores]) -> str:
    rows = min(MOST, len(data.train.rows))
    return f"accuracy (macro F1) on the validation rows, learned of {rows:,}: {scores_text(scores)}"


def _row_counts(data: Labelled, train: TokenRows) -> str:
    valid, groups = len(data.valid.rows), len(data.groups)
    is_flat = train.form.layout == "flat"
    return (
        f"{many(len(train), 'training row')} and {many(valid, 'validation row')}"
        + f" of {many(groups, 'group')}, with scores in groups.json" * bool(groups)
        + f", up to {train.longest} tokens; batches "
        + ("without padding" if is_flat else "padded to their longest row")
    )


def _class_shares(data: Labelled, counts: list[int]) -> str:
    rows = sum(counts)
    pairs = zip(data.classes.names, counts, strict=True)
    return ", ".join(f"{name} {count / rows:.0%}" for name, count in pairs)


def _trainable_text(config: PairClassifierConfig, classes: int) -> str:
    """Check that the trainable parameters match the settings, and return them in words."""
    with torch.device("meta"):
        model = _model(config, classes, weights=False)
    if config.adapter.method == "none":
        return f"all {check_trainable(model, means='all').numbers:,} parameters"
    head = _HEAD if model.pooling.scores is not None else _HEAD[:1]
    return str(check_trainable(model, means="adapters", head=head))


def _excerpt(data: Labelled, base_model: FoundModel, rows: TokenRows) -> str:
    """Return the beginning of the first row of the run, and its label."""
    label = int(rows.batch(0, 0, 1).tensors["label"])
    return f"{first_row_text(base_model, rows)} -> {data.classes.names[label]}"
