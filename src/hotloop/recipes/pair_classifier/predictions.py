"""Predicts labels of rows by a trained pair-classifier; scores them where they are known."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from hotloop.core.errors import UsageError
from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.readers.records import find_sources
from hotloop.data.readers.records import head as first_rows
from hotloop.data.sampling.label_classes import Classes
from hotloop.data.sampling.labelled_rows import group_name
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import TokenRows
from hotloop.data.tokenising.open_or_make import own
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
_BESIDE = ("label", "task")  # what rows may lack
_ROWS = 16  # of the longest in a batch; of shorter ones as many as have the same tokens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """What a classifier says of the rows of a file, in their order."""

    truth: ClassVar[str] = "label"  # what rows must have to be scored
    names: tuple[str, ...]  # of the classes
    probabilities: NDArray[np.float32]  # [rows, classes]
    report: MetricsReport | None  # None: the rows have no labels
    baselines: Mapping[str, Scores] = field(default_factory=dict)  # none: nobody asked

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield for each row its label, and how probable the model holds each class."""
        for each in self.probabilities:
            shares = dict(zip(self.names, map(float, each), strict=True))
            yield {"label": self.names[int(each.argmax())], "probabilities": shares}

    def scores(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: the rows have no labels."""
        if self.report is None:
            return None
        scores: dict[str, Any] = self.report.to_json()
        if self.baselines:
            scores["baselines"] = {name: asdict(each) for name, each in self.baselines.items()}
        return scores

    def table(self) -> str:
        """Return the scores, which there must be, as lines of text without colour."""
        assert self.report is not None
        table = class_table(self.report)
        if not self.baselines:
            return table
        text = "\n".join(
            f"{name:32} accuracy {each.accuracy:.4f}  macro F1 {each.macro_f1 or 0:.4f}"
            for name, each in self.baselines.items()
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
    """Return what `model`, in evaluation mode, says of the rows of a file or folder.

    `kept` are the texts that the run keeps, by name. Rows are read as those that were trained on;
    labels and groups may be missing. With `baselines` there are the scores of baselines, learned of
    the rows of the run's configuration, which then must still be there. Raises UsageError without a
    file, DataError for rows that cannot be used, and for labels that the model does not know.
    """
    if path is None or most is not None:
        raise UsageError("of a pair-classifier: hotloop predict RUN_DIR FILE, without --rows")
    told: dict[str, Any] = json.loads(kept["classes.json"])
    classes = Classes(labels=tuple(told["classes"]))
    found, device = find_model(str(config.model.name)), next(model.parameters()).device
    store = _tokens(config, found, path, cache)
    file = partial(TokenRows, store, _SPLIT, form=form_of(config, found), seed=0, shuffle=False)
    rows = file(rows=np.argsort(file().lengths, kind="stable"))
    logits = np.empty((len(rows), len(classes.names)), np.float32)
    for first, count in by_tokens(rows, 0, 0, len(rows), _ROWS):
        batch = rows.batch(0, first, count)
        tensors = {name: each.to(device) for name, each in batch.tensors.items()}
        with torch.inference_mode():
            said = model({**tensors, **batch.beside(device)})
        logits[rows.ids(0, first, count)] = said.float().cpu().numpy()
        if progress is not None:
            progress(first + count, len(rows))
    return Predicted(
        names=classes.names,
        probabilities=torch.from_numpy(logits).softmax(-1).numpy(),
        report=_scored(store, classes, logits.argmax(-1)),
        baselines=_baselines(config, store, classes, cache) if baselines else {},
    )


def _baselines(
    config: PairClassifierConfig, store: Store, classes: Classes, cache: Path
) -> dict[str, Scores]:
    """Return what the rows of the run let baselines say of rows that have labels."""
    if "label" not in store.splits[_SPLIT].names:
        return {}
    data = prepare_data(config, cache=cache)
    truth = _truth(store, classes)
    rows = np.arange(len(truth), dtype=np.int64)
    test = Tested(store=store, split=_SPLIT, rows=rows, classes=truth)
    return row_baselines(tested(data, data.train), test, names=classes.names)


def _truth(store: Store, classes: Classes) -> NDArray[np.int64]:
    words = store.splits[_SPLIT].words("label")
    return classes.numbers(words, place=lambda row: RowLocation("the rows", row=row))


def _tokens(config: PairClassifierConfig, found: FoundModel, path: Path, cache: Path) -> Store:
    """Return the rows of all files, in their order, as one split."""
    sources = [replace(each, split=_SPLIT) for each in find_sources([str(path)], by={}).files]
    order = order_of(config, found)
    row = next((row for _, row in first_rows(sources[0], 1, policy=order.policy)), {})
    given = {part: key for part, key in order.fields.items() if part not in _BESIDE or key in row}
    return own(sources, replace(order, fields=given, said={}), cache=cache)[1]


def _scored(store: Store, classes: Classes, said: NDArray[np.int64]) -> MetricsReport | None:
    """Return the scores of what was said of rows that have labels."""
    file = store.splits[_SPLIT]
    if "label" not in file.names:
        return None
    truth = _truth(store, classes)
    words = file.words("task") if "task" in file.names else []
    groups = sorted(set(map(group_name, words)))
    counts = np.zeros((max(1, len(groups)), len(classes.names), len(classes.names)), np.int64)
    number = {name: at for at, name in enumerate(groups)}
    of_row = np.array([number[group_name(word)] for word in words] or [0] * len(truth))
    np.add.at(counts, (of_row, truth, said), 1)
    return report(counts, names=classes.names, groups=groups)
