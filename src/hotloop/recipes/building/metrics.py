"""Scores a classifier from a confusion matrix: F1, precision, recall, accuracy, Matthews.

Counts add up over batches, devices and folds; ratios do not, so they are computed from the sums.

A ratio of 0/0 is None: there were no such rows. Precision is undefined for a class that was never
predicted, recall for one without a row, F1 = 2 TP / (2 TP + FP + FN) for one that has neither.
`macro_f1` is the mean over the classes whose F1 is defined, which are those that occur among labels
or predictions: scikit-learn's f1_score(average="macro") and torchmetrics' say the same.
`macro_f1_zero_division_0` counts the others as 0, as scikit-learn does where all classes are named
(labels=..., zero_division=0). The two differ only where a class is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.codec import to_json
from hotloop.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["METRICS", "ClassScore", "MetricsReport", "Scores", "positive_class", "report", "scores"]

SCHEMA: Final = 1  # of MetricsReport.to_json; history: 1 (2026-11) first
# Metrics that may select the best model. Higher is better; f1, precision, recall: two classes only.
METRICS: Final = (
    "accuracy",
    "balanced_accuracy",
    "f1",
    "macro_f1",
    "macro_f1_zero_division_0",
    "matthews",
    "precision",
    "recall",
    "weighted_f1",
)
_OF_THE_POSITIVE: Final = ("f1", "precision", "recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScore:
    """The scores of one class, 0 to 1; None where there were no such rows."""

    name: str
    precision: float | None  # share of the rows predicted as this class that belong to it
    recall: float | None  # share of the rows of this class that are predicted as it
    f1: float | None
    support: int  # rows of this class
    predicted: int  # rows predicted as this class


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores of a classifier on some rows; None where there were no such rows."""

    rows: int
    accuracy: float | None
    balanced_accuracy: float | None  # mean recall of the classes that have rows
    macro_f1: float | None  # mean of the F1 that are defined
    macro_f1_zero_division_0: float | None  # the others count as 0
    weighted_f1: float | None  # by rows
    matthews: float | None  # -1 to 1; None where all rows, or all predictions, are of one class
    positive: str | None  # which of two classes `f1` is of; None: there are not two
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]  # [class, predicted class] rows

    def value(self, metric: str) -> float | None:
        """Return one of METRICS; f1, precision and recall are those of the positive class.

        Raises ConfigError for an unknown metric, or for a metric that needs two classes.
        """
        if metric not in METRICS:
            near = did_you_mean(metric, METRICS)
            raise ConfigError(f"metric {metric!r} is unknown{near}: {', '.join(METRICS)}")
        if metric not in _OF_THE_POSITIVE:
            score = getattr(self, metric)
        elif self.positive is None:
            raise ConfigError(
                f"metric {metric} is of the positive one of two classes, and there are "
                f"{len(self.classes)}; take macro_f1 or weighted_f1"
            )
        else:
            score = getattr(next(c for c in self.classes if c.name == self.positive), metric)
        assert score is None or isinstance(score, float)
        return score


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """The scores of all rows, and of each group of rows."""

    whole: Scores
    groups: Mapping[str, Scores]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; null where there were no such rows."""
        return to_json(self, schema=SCHEMA)


def report(
    confusion: NDArray[np.integer[Any]],
    *,
    names: Sequence[str],
    groups: Sequence[str] = (),
) -> MetricsReport:
    """Return the scores for counts [groups, true classes, predicted classes].

    `names` are the names of the classes, `groups` those of the groups (empty for one group).
    """
    assert confusion.ndim == 3, confusion.shape
    assert len(confusion) == (len(groups) or 1), (confusion.shape, len(groups))
    whole = scores(confusion.sum(0), names=names)
    confusion_of_groups = zip(groups, confusion[: len(groups)], strict=True)
    return MetricsReport(
        whole=whole,
        groups={name: scores(counts, names=names) for name, counts in confusion_of_groups},
    )


def scores(confusion: NDArray[np.integer[Any]], *, names: Sequence[str]) -> Scores:
    """Return the scores for counts [true classes, predicted classes]."""
    assert confusion.shape == (len(names), len(names)), (confusion.shape, len(names))
    counts: list[list[int]] = confusion.tolist()  # Python's integers: their products stay exact
    support = [sum(row) for row in counts]
    predicted = [sum(column) for column in zip(*counts, strict=True)]
    right = [row[number] for number, row in enumerate(counts)]
    classes = tuple(
        ClassScore(
            name=name,
            precision=_ratio(right[number], predicted[number]),
            recall=_ratio(right[number], support[number]),
            f1=_ratio(2 * right[number], support[number] + predicted[number]),
            support=support[number],
            predicted=predicted[number],
        )
        for number, name in enumerate(names)
    )
    rows = sum(support)
    weighted = math.fsum(score.support * score.f1 for score in classes if score.f1 is not None)
    return Scores(
        rows=rows,
        accuracy=_ratio(sum(right), rows),
        balanced_accuracy=_mean(score.recall for score in classes),
        macro_f1=_mean(score.f1 for score in classes),
        macro_f1_zero_division_0=_mean(score.f1 or 0.0 for score in classes) if rows else None,
        weighted_f1=_ratio(weighted, rows),
        matthews=_matthews(right, support, predicted),
        positive=positive_class(names),
        classes=classes,
        confusion=tuple(map(tuple, counts)),
    )


def positive_class(names: Sequence[str]) -> str | None:
    """Return the positive class of F1, the last of two classes; None if there are not two.

    The last of 0 and 1, false and true, no and yes, or negative and positive is the usual choice.
    """
    return names[1] if len(names) == 2 else None


def _matthews(
    right: Sequence[int], support: Sequence[int], predicted: Sequence[int]
) -> float | None:
    """Return Matthews' correlation for any number of classes (Gorodkin 2004, R_K).

    doi:10.1016/j.compbiolchem.2004.09.006. scikit-learn returns 0 where this returns None.
    """
    rows = sum(support)
    both = sum(t * p for t, p in zip(support, predicted, strict=True))
    of_labels = rows * rows - sum(t * t for t in support)
    of_predictions = rows * rows - sum(p * p for p in predicted)
    if not of_labels or not of_predictions:
        return None
    return (sum(right) * rows - both) / math.sqrt(of_labels * of_predictions)


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: Iterable[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None
