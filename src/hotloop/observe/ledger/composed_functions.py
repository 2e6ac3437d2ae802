"""Finds a function of one tensor for which torch has one operator.

It is a function of each element, such as GELU, or of each row, such as a normalisation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import FunctionStep, Rewrite
from hotloop.observe.ledger.flow import is_chosen
from hotloop.observe.ledger.torch_functions import OF_ROWS, POINTWISE, same_in_torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation

__all__ = ["composed_functions"]

_MOST = 16  # operators of a function
_WEIGHTS = 2  # at most: a factor and a summand for each column, as nn.LayerNorm has them


def composed_functions(flow: Flow) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield the calls of such functions with their operations; no operation is in two of them."""
    parts = [_is_part(one) for one in flow.operations]
    known: set[int] = set()
    for last in range(len(flow.operations) - 1, -1, -1):
        if not parts[last] or last in known:
            continue
        largest: tuple[Rewrite, list[int]] | None = None
        for numbers, given, weights in _parts(flow, last, parts):
            steps = _steps(flow, numbers, given, weights)
            torch_function = same_in_torch(steps, given.full[-1], len(weights)) if steps else None
            if torch_function is None:
                continue
            largest = (
                Rewrite(
                    kind="composed function",
                    form=torch_function[0],
                    shapes=(given.full, *(weight.full for weight in weights)),
                    needs_grad=(given.needs_grad, *(weight.needs_grad for weight in weights)),
                    dtypes=(given.dtype,),
                    device=given.device,
                    steps=steps,
                ),
                numbers,
            )
        if largest is not None:
            known.update(largest[1])
            yield largest


def _is_part(one: Operation) -> bool:
    """Whether an operation may be one of a function: of each element, or of each row."""
    if one.node is not None or not one.operands or not one.shape or not is_chosen(one.stack):
        return False
    name = one.name.removeprefix("aten::").removesuffix("_")
    if name in OF_ROWS:
        return _is_of_rows(one)
    if name not in POINTWISE or one.options or sum(one.are_tensors) != len(one.operands):
        return False
    return all(
        operand.number is not None
        or operand.full == one.shape
        or _is_row_value(operand, one.shape)
        or _is_weight(operand, one.shape)
        for operand in one.operands
    )


def _is_of_rows(one: Operation) -> bool:
    """Whether an operator reduces, or normalises, the last dimension and nothing else."""
    full, options = one.operands[0].full, dict(one.options)
    numbers = list(one.numbers)
    dims = options.pop("dim", numbers.pop(0) if numbers else None)
    options.pop("keepdim", None)
    listed = dims if isinstance(dims, list | tuple) else [dims]
    if len(one.operands) != 1 or len(listed) != 1 or not isinstance(listed[0], int) or not full:
        return False
    # What is left is whether the dimension stays, or whether a softmax changes the type.
    is_plain = options.keys() <= {"correction"} and all(isinstance(x, bool) for x in numbers)
    keeps = one.shape in (full, (*full[:-1], 1), full[:-1])
    return is_plain and keeps and listed[0] % len(full) == len(full) - 1


def _is_row_value(operand: Operand, shape: Sequence[int]) -> bool:
    return len(shape) > 1 and operand.full == (*shape[:-1], 1)


def _is_weight(operand: Operand, shape: Sequence[int]) -> bool:
    """Whether a tensor has a number for each column and is older than the steps."""
    return operand.storage is not None and operand.full == tuple(shape[-1:]) and len(shape) > 1


def _parts(
    flow: Flow, last: int, parts: Sequence[bool]
) -> Iterator[tuple[list[int], Operand, list[Operand]]]:
    """Yield operations that end with one, smaller sets first, with their input and weights.

    They have one tensor as input, and nothing else reads the results in between.
    """
    numbers: list[int] = []
    next_one: int | None = last
    shape = flow.operations[last].shape
    while next_one is not None and len(numbers) < _MOST:
        numbers.insert(0, next_one)
        inside = set(numbers)
        inputs: dict[object, Operand] = {}
        weights: dict[object, Operand] = {}
        for number in numbers:
            for operand in flow.operations[number].operands:
                if operand.number is None and not inside.issuperset(operand.writers or (-1,)):
                    of = weights if _is_weight(operand, shape) else inputs
                    of[operand.identity] = operand
        if len(numbers) > 1 and len(inputs) == 1 and len(weights) <= _WEIGHTS:
            given = next(iter(inputs.values()))
            if given.full == shape:
                yield numbers.copy(), given, list(weights.values())
        next_one = max(
            (
                writer
                for operand in inputs.values()
                for writer in operand.writers[-1:]
                if parts[writer]
                and writer not in flow.live
                and _follows(flow.operations[writer].shape, shape)
                and flow.readers[writer] <= inside
            ),
            default=None,
        )


def _follows(shape: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a result has the shape of the last one, or one value for each of its rows."""
    return shape == last or shape in ((*last[:-1], 1), last[:-1])


def _steps(
    flow: Flow, numbers: Sequence[int], given: Operand, weights: Sequence[Operand]
) -> tuple[FunctionStep, ...]:
    """Return what the operations do; nothing if the result is not one function of the input."""
    places = {number: place for place, number in enumerate(numbers, 1)}
    of_weights = {weight.identity: -2 - place for place, weight in enumerate(weights)}
    steps = []
    dense = _dense(given.full)
    for number in numbers:
        one = flow.operations[number]
        name = one.name.removeprefix("aten::").removesuffix("_")
        inputs: list[int] = []
        values: list[float | None] = []
        operands, others = iter(one.operands), iter(one.numbers)
        for is_tensor in one.are_tensors[: 1 if name in OF_ROWS else None]:
            operand = next(operands) if is_tensor else None
            if operand is None or operand.number is not None:
                value = next(others) if operand is None else operand.number
                if not isinstance(value, int | float | None):
                    return ()
                inputs.append(-1)
                values.append(None if value is None else float(value))
                continue
            if operand.identity in of_weights:
                if operand.dtype != given.dtype:
                    return ()
                inputs.append(of_weights[operand.identity])
                continue
            is_inside = len(operand.writers) == 1 and operand.writers[0] in places
            # A detached result, one of another type and one in another order are none of the input.
            is_bool = is_inside and operand.dtype == "bool"
            if not is_bool and (operand.dtype, operand.needs_grad) != (
                given.dtype,
                given.needs_grad,
            ):
                return ()
            is_whole = operand.full == given.full
            if is_inside and is_whole and operand.strides not in (given.strides, dense):
                return ()
            inputs.append(places[operand.writers[0]] if is_inside else 0)
        if "correction" in dict(one.options):
            correction = dict(one.options)["correction"]
            values.append(1.0 if correction is None else float(correction))
        steps.append(FunctionStep(name=name, inputs=tuple(inputs), numbers=tuple(values)))
    return tuple(steps)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor of this shape without gaps."""
    strides, size = [], 1
    for length in reversed(shape):
        strides.append(size)
        size *= max(length, 1)
    return tuple(reversed(strides))
