"""What the recorded operators show of the losses."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from hotloop.core.case.ledger import CrossedLoss
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.places import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.finding import SourceLocation
    from hotloop.observe.ledger.operation import Operand, Operation
    from hotloop.observe.ledger.recorder import Recorder
    from hotloop.observe.ledger.window import Window

__all__ = ["crossed", "softmax_twice", "without_gradient"]

_DIFFERENCE: Final = "aten::sub"
_LOSSES: Final = frozenset({"aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss"})
# What is done with a difference on its way into a loss of pairs. Kernels and masks of all pairs
# have others, such as exp and where.
_SIZES: Final = frozenset(
    f"aten::{name}" for name in ("abs", "add", "div", "mul", "neg", "pow", "sqrt", "sub")
)
_SUMS: Final = frozenset({"aten::sum", "aten::mean"})
_TORCH: Final = "torch/nn/functional.py"  # expands what it compares, with a warning


def softmax_twice(windows: Iterable[Window]) -> tuple[SourceLocation, ...]:
    """Return the project's lines whose log-softmax was given probabilities in each call."""
    always: dict[SourceLocation, bool] = {}
    for window in windows:
        for stack, is_one in window.recorder.probabilities.items():
            if (place := place_of(shown(stack))) is not None:
                always[place] = always.get(place, True) and is_one
    return tuple(place for place, is_one in always.items() if is_one)


def without_gradient(windows: Iterable[Window]) -> float | None:
    """Return the share of the positions of the largest log-softmax that the loss leaves out."""
    operations = (one for window in windows for one in window.recorder.operations)
    losses = [one for one in operations if one.left_out is not None]
    largest = max(losses, key=lambda one: one.bytes, default=None)
    return None if largest is None else float(largest.left_out)


def crossed(windows: Iterable[Window]) -> tuple[CrossedLoss, ...]:
    """Return the lines whose loss compares each prediction with the targets of all rows.

    Differences beside those of all predictions from one another are left out: they belong to a
    distance between two sets.
    """
    found: dict[SourceLocation, CrossedLoss] = {}
    for window in windows:
        operations = window.recorder.operations
        pairs = [
            (number, pair)
            for number, one in enumerate(operations)
            if (pair := _crossed_pair(one)) is not None
        ]
        if not pairs:
            continue
        readers = _readers(operations)
        of_sets = {one.shape[0] for one in operations if _is_among_predictions(one)}
        for number, pair in pairs:
            place = place_of(shown(operations[number].stack))
            if place is None or place in found or math.prod(pair[0].shape) in of_sets:
                continue
            if not _is_only_summed(window.recorder, number, readers):
                continue
            shapes = [part.shape[part.shape[0] == 1 :] for part in pair]
            prediction, target = shapes if pair[0].needs_grad else reversed(shapes)
            found[place] = CrossedLoss(place=place, prediction=prediction, target=target)
    return tuple(found.values())


def _crossed_pair(one: Operation) -> tuple[Operand, Operand] | None:
    """Return what an operation compares, if it is n rows of one number with n numbers.

    torch's functions of losses expand both to [n, n] before; what a script made [1, n] or [n, n] is
    no row of targets. A tensor beside its own values is none either.
    """
    if one.node is not None or len(one.operands) != 2 or len(one.shape) > 2:
        return None
    first, second = one.operands
    if first.needs_grad == second.needs_grad or first.writers == second.writers != ():
        return None
    column, row = (first, second) if first.shape[1:] == (1,) else (second, first)
    rows = column.shape[0] if column.shape[1:] == (1,) else 0
    is_expanded = row.full == (rows, rows) and _is_of_torch(one)
    flat = (1, rows) if is_expanded else (rows,)
    known = one.name == _DIFFERENCE or one.name in _LOSSES
    return (first, second) if known and rows > 1 and row.shape == flat else None


def _is_of_torch(one: Operation) -> bool:
    for frame in shown(one.stack):
        if frame.own:
            return False
        if frame.file.replace("\\", "/").endswith(_TORCH):
            return True
    return False


def _readers(operations: Sequence[Operation]) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = defaultdict(list)
    for reader, one in enumerate(operations):
        for read in one.reads if one.node is None else ():
            readers[read].append(reader)
    return readers


def _is_only_summed(recorder: Recorder, number: int, readers: Mapping[int, Sequence[int]]) -> bool:
    """Whether all numbers of a result are summed up, and the sum is differentiated.

    Distances of all pairs that are used for something else, or with weights for each pair, are none
    of a loss.
    """
    operations = recorder.operations
    rows = math.prod(operations[number].operands[0].shape)
    chain, waiting = {number}, [number]
    while waiting:
        number = waiting.pop()
        one = operations[number]
        size = math.prod(one.shape)
        if size == 1 and number in recorder.losses:
            return True
        is_first = len(chain) == 1
        whole = [part for part in one.operands if math.prod(part.full) == rows**2]
        is_alone = is_first or all(chain.issuperset(part.writers) for part in whole)
        is_kept = (one.name in _SIZES or one.name in _LOSSES) and size in (1, rows**2)
        if is_alone and (is_kept or (one.name in _SUMS and size == 1)):
            new = [reader for reader in readers.get(number, ()) if reader not in chain]
            chain.update(new)
            waiting += new
    return False


def _is_among_predictions(one: Operation) -> bool:
    """Whether it is the difference of all pairs of predictions."""
    if one.name != _DIFFERENCE or len(one.operands) != 2 or len(one.shape) != 2:
        return False
    rows, columns = one.shape
    parts = one.operands
    return rows == columns and all(p.needs_grad and math.prod(p.shape) == rows for p in parts)
