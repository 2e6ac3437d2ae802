"""Predicts the labels of rows by a trained pair-classifier, and scores them where labels exist."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from hotloop.core.errors import UsageError
from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.readers.prose import FOLDER
from hotloop.data.readers.records import find_sources
from hotloop.data.readers.records import head as first_rows
from hotloop.data.sampling.label_classes import Classes
from hotloop.data.sampling.labelled_rows import group_name
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import TokenRows
from hotloop.data.sampling.train_and_valid import in_classes
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.open_or_make import own
from hotloop.data.tokenising.plan import by_position
from hotloop.data.tokenising.public_sets import value_at
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.metrics import report
from hotloop.recipes.pair_classifier.baselines import MOST, Tested, row_baselines, tested
from hotloop.recipes.pair_classifier.class_table import class_table
from hotloop.recipes.pair_classifier.rows import form_of, order_of, prepare_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

    from hotloop.data.tokenising.token_store import Store
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.building.metrics import MetricsReport, Scores
    from hotloop.recipes.pair_classifier.config import PairClassifierConfig

__all__ = ["Predicted", "predict"]

_SPLIT = "rows"
_BESIDE = ("label", "task", "report")  # keys that rows may lack
_LOOKED = 200  # rows that tell which keys there are
_ROWS = 16  # longest rows in a batch; shorter rows fill the same number of tokens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """The predictions of a classifier for the rows of a file, in the order of the rows."""

    truth: ClassVar[str] = "label"  # what rows need in order to be scored
    names: tuple[str, ...]  # of the classes
    probabilities: NDArray[np.float32]  # [rows, classes]
    report: MetricsReport | None  # None: the rows have no labels
    baselines: Mapping[str, Scores] = field(default_factory=dict)  # empty: not requested

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the label of each row, with the probability of every class."""
        for row in self.probabilities:
            shares = dict(zip(self.names, map(float, row), strict=True))
            yield {"label": self.names[int(row.argmax())], "probabilities": shares}

    def scores(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: the rows have no labels."""
        if self.report is None:
            return None
        scores: dict[str, Any] = self.report.to_json()
        if self.baselines:
            scores["baselines"] = {
                name: asdict(baseline) for name, baseline in self.baselines.items()
            }
        return scores

    def table(self) -> str:
        """Return the scores as plain lines of text; the rows must have labels."""
        assert self.report is not None
        table = class_table(self.report)
        if not self.baselines:
            return table
        text = "\n".join(
            f"{name:32} accuracy {baseline.accuracy:.4f}  macro F1 {baseline.macro_f1 or 0:.4f}"
            for name, baseline in self.baselines.items()
        )
        return f"{table}\n\nlearned of the run's rows ({MOST:,} at most):\n{text}"


def predict(
    config: PairClassifierConfig,
    model: nn.Module,
    kept: Mapping[str, str],
    path: Path | None,
    *,
    cache: Path,
    progress: Callable[[int, int], None] | None = None,
    baselines: bool = False,
    most: int | None = None,
) -> Predicted:
    """Return the predictions of `model`, in evaluation mode, for the rows of a file or folder.

    `kept` maps the names of the run's small files to their texts. Rows are read with the settings
    of the run; labels and groups may be missing. `baselines` also trains the baselines on the run's
    own rows, which must still exist. Raises UsageError without a file or with `most`, DataError for
    rows that cannot be used and for labels that the model does not know.
    """
    if path is None or most is not None:
        raise UsageError("of a pair-classifier: hotloop predict RUN_DIR FILE, without --rows")
    saved: dict[str, Any] = json.loads(kept["classes.json"])
    classes = Classes(labels=tuple(saved["classes"]))
    base_model, device = find_model(str(config.model.name)), next(model.parameters()).device
    store = _tokenise(config, base_model, path, cache)
    file = partial(
        TokenRows, store, _SPLIT, form=form_of(config, base_model), seed=0, shuffle=False
    )
    rows = file(rows=np.argsort(file().lengths, kind="stable"))
    logits = np.empty((len(rows), len(classes.names)), np.float32)
    for first, count in by_tokens(rows, 0, 0, len(rows), _ROWS):
        batch = rows.batch(0, first, count)
        tensors = {name: tensor.to(device) for name, tensor in batch.tensors.items()}
        with torch.inference_mode():
            batch_logits = model({**tensors, **batch.beside(device)})
        logits[rows.ids(0, first, count)] = batch_logits.float().cpu().numpy()
        if progress is not None:
            progress(first + count, len(rows))
    return Predicted(
        names=classes.names,
        probabilities=torch.from_numpy(logits).softmax(-1).numpy(),
        report=_score(store, classes, logits.argmax(-1)),
        baselines=_baselines(config, store, classes, cache) if baselines else {},
    )


def _baselines(
    config: PairClassifierConfig, store: Store, classes: Classes, cache: Path
) -> dict[str, Scores]:
    """Return the baselines' scores, trained on the run's rows; empty where rows have no labels."""
    if "label" not in store.splits[_SPLIT].names:
        return {}
    data = prepare_data(config, cache=cache)
    truth = _true_classes(store, classes)
    rows = np.arange(len(truth), dtype=np.int64)
    test = Tested(store=store, split=_SPLIT, rows=rows, classes=truth)
    return row_baselines(tested(data, data.train), test, names=classes.names)


def _true_classes(store: Store, classes: Classes) -> NDArray[np.int64]:
    words = store.splits[_SPLIT].words("label")
    return classes.numbers(words, place=lambda row: RowLocation("the rows", row=row))


def _tokenise(
    config: PairClassifierConfig, base_model: FoundModel, path: Path, cache: Path
) -> Store:
    """Return the tokenised rows of all files, in their order, as one split."""
    order = order_of(config, base_model)
    files = by_position(find_sources([str(path)], by={}).files, order.fields)
    if order.fields.get("label", FOLDER) == FOLDER:
        files, _ = in_classes(files)
    sources = [replace(source, split=_SPLIT) for source in files]
    rows = [row for _, row in first_rows(sources[0], _LOOKED, policy=order.policy)]
    fields = {
        part: key
        for part, key in order.fields.items()
        if part not in _BESIDE or any(value_at(row, key) is not None for row in rows)
    }
    label = layout(rows, shape="pair", fields=fields).fields.get("label")
    if label is not None and all(value_at(row, label) is None for row in rows):
        fields["label"] = ""  # a test file of the hub, whose labels are -1
    return own(sources, replace(order, fields=fields, said={}), cache=cache)[1]


def _score(store: Store, classes: Classes, predicted: NDArray[np.int64]) -> MetricsReport | None:
    """Return the scores of the predicted classes [rows]; None where the rows have no labels."""
    file = store.splits[_SPLIT]
    if "label" not in file.names:
        return None
    truth = _true_classes(store, classes)
    by = next((name for name in ("report", "task") if name in file.names), None)
    words = [] if by is None else file.words(by)
    groups = sorted(set(map(group_name, words)))
    counts = np.zeros((max(1, len(groups)), len(classes.names), len(classes.names)), np.int64)
    number = {name: position for position, name in enumerate(groups)}
    of_row = np.array([number[group_name(word)] for word in words] or [0] * len(truth))
    np.add.at(counts, (of_row, truth, predicted), 1)
    return report(counts, names=classes.names, groups=groups)
