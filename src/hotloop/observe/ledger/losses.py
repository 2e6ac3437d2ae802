"""What the recorded operators show of the losses."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from hotloop.core.case.ledger import CrossedLoss
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.places import place_of
from hotloop.observe.ledger.torch_functions import POINTWISE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.core.finding import SourceLocation
    from hotloop.observe.ledger.operation import Operand, Operation
    from hotloop.observe.ledger.recorder import Recorder
    from hotloop.observe.ledger.window import Window

__all__ = ["crossed", "softmax_twice", "without_gradient"]

_DIFFERENCE: Final = "aten::sub"
_LOSSES: Final = frozenset({"aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss"})
_KEEPING: Final = frozenset({*(f"aten::{name}" for name in POINTWISE), *_LOSSES})
_SUMS: Final = frozenset({"aten::sum", "aten::mean"})


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
    """Return the lines whose loss compares each prediction with the targets of all rows."""
    found: dict[SourceLocation, CrossedLoss] = {}
    for window in windows:
        recorder = window.recorder
        for number, one in enumerate(recorder.operations):
            if (pair := _crossed_pair(one)) is None or not _is_only_summed(recorder, number):
                continue
            if (place := place_of(shown(one.stack))) is not None:
                shapes = [part.shape[part.shape[0] == 1 :] for part in pair]
                prediction, target = shapes if pair[0].needs_grad else reversed(shapes)
                loss = CrossedLoss(place=place, prediction=prediction, target=target)
                found.setdefault(place, loss)
    return tuple(found.values())


def _crossed_pair(one: Operation) -> tuple[Operand, Operand] | None:
    """Return what an operation compares, if it is n rows of one number with n numbers.

    torch's functions of losses expand both to [n, n] before; what a script made [1, n] is no row
    of targets.
    """
    if one.node is not None or len(one.operands) != 2 or len(one.shape) > 2:
        return None
    first, second = one.operands
    if first.needs_grad == second.needs_grad:  # none of both is the target, or none learns
        return None
    column, row = (first, second) if first.shape[1:] == (1,) else (second, first)
    rows = column.shape[0] if column.shape[1:] == (1,) else 0
    flat = (1, rows) if row.full == (rows, rows) else (rows,)
    known = one.name == _DIFFERENCE or one.name in _LOSSES
    return (first, second) if known and rows > 1 and row.shape == flat else None


def _is_only_summed(recorder: Recorder, number: int) -> bool:
    """Whether all numbers of a result are summed up, and the sum is differentiated.

    Distances of all pairs that are used for something else are none of a loss.
    """
    operations = recorder.operations
    readers: dict[int, list[int]] = defaultdict(list)
    for reader, one in enumerate(operations):
        for read in one.reads if one.node is None and reader > number else ():
            readers[read].append(reader)
    every, waiting = math.prod(operations[number].operands[0].shape) ** 2, [number]
    while waiting:
        number = waiting.pop()
        one = operations[number]
        size = math.prod(one.shape)
        is_kept = one.name in _KEEPING and size in (1, every)
        if not is_kept and not (one.name in _SUMS and size == 1):
            continue
        if number in recorder.losses and size == 1:
            return True
        waiting += readers[number]
    return False
