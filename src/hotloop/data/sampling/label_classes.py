"""Map labels of rows to classes: find the classes, number them, and weigh them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import DataError, did_you_mean
from hotloop.data.readers.bad_rows import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.bad_rows import RowLocation

__all__ = ["Classes", "Label", "balanced", "find_classes"]

Label = str | int | bool

_SHOWN: Final = 12  # classes in a message, at most
_KINDS: Final[dict[type, str]] = {str: "text", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """The classes of a data set; a label's index among them is the number that is learned."""

    labels: tuple[Label, ...]  # sorted, all of one type

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels as text: true and false as JSON has them."""
        return tuple(
            str(label).lower() if isinstance(label, bool) else str(label) for label in self.labels
        )

    def numbers(
        self, labels: Sequence[object], *, place: Callable[[int], RowLocation]
    ) -> NDArray[np.int64]:
        """Return the class of each row, [rows]; `place` returns the location of a row.

        Raises DataError that lists the rows whose label is not one of the classes.
        """
        kind = type(self.labels[0])
        index = {label: n for n, label in enumerate(self.labels)}
        numbers, faults = np.empty(len(labels), np.int64), Faults("stop")
        for row, label in enumerate(labels):
            number = index.get(label) if type(label) is kind else None
            if number is None:
                faults.add(place(row), "not one of the classes", self._why(label))
            else:
                numbers[row] = number
        faults.raise_if_any({})  # no option skips such rows
        return numbers

    def _why(self, label: object) -> str:
        known = ", ".join(map(_shown, self.labels[:_SHOWN]))
        more = f" and {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
        near = did_you_mean(label, self.names) if isinstance(label, str) else ""
        return f"the label is {_shown(label)}, not one of {known}{more}{near}"


def find_classes(labels: Sequence[object], *, place: Callable[[int], RowLocation]) -> Classes:
    """Return the classes of rows by their labels; `place` returns the location of a row.

    Raises DataError that lists the rows without a label, or with a label of another type than most
    (1 and true, or 1 and "1", differ), and if there are fewer than two classes.
    """
    kinds = Counter(type(label) for label in labels)
    known = [kind for kind, _ in kinds.most_common() if kind in _KINDS]  # ties: the first seen
    kind = known[0] if known else str
    faults = Faults("stop")
    for row, label in enumerate(labels):
        if type(label) is not kind or _is_blank(label):
            faults.add(place(row), *_fault(label, kind))
    faults.raise_if_any({})  # nothing leaves such rows out
    different = sorted(set(labels))  # type: ignore[type-var]
    if len(different) < 2:
        has = f"all labels are {_shown(different[0])}" if different else "there is no row"
        raise DataError(
            f"{has}: a classifier needs two classes or more; check the files and the label's key"
        )
    return Classes(labels=tuple(different))  # type: ignore[arg-type]


def balanced(counts: NDArray[np.integer[Any]], *, names: Sequence[str]) -> NDArray[np.float64]:
    """Return a weight for each class, [classes], that gives all classes the same total weight.

    rows / (classes * rows of the class), as scikit-learn's compute_class_weight("balanced"); the
    mean weight of a row is 1. `counts` are the training rows of each class, [classes]. Raises
    DataError for a class that has none.
    """
    if not counts.all():
        lacking = [repr(names[index]) for index in np.flatnonzero(counts == 0)[:_SHOWN]]
        raise DataError(
            f"balanced class weights: expected training rows of every class, got none of "
            f"{', '.join(lacking)}; add rows of it, or set the weights"
        )
    weights: NDArray[np.float64] = counts.sum() / (len(counts) * counts)
    return weights


def _fault(label: object, kind: type) -> tuple[str, str]:
    """Return the kind of a fault, and its description."""
    if label is None:
        return "without a label", "the label is nothing (null)"
    if _is_blank(label):
        return "without a label", "the label is empty"
    if type(label) not in _KINDS:
        description = f"the label is {_shown(label)}, not text, a whole number, true or false"
        return "not a label", description
    return "mixed label types", f"the label is {_shown(label)}, but most are {_KINDS[kind]}"


def _is_blank(label: object) -> bool:
    return isinstance(label, str) and not label.strip()


def _shown(label: object) -> str:
    """Return a label as JSON has it, shortened; for other values, the type."""
    if label is None:
        return "nothing (null)"
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, str):
        return repr(label if len(label) <= 40 else f"{label[:40]}...")
    return str(label) if isinstance(label, int | float) else f"a {type(label).__name__}"
