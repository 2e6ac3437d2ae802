"""Finds a function of one tensor, element by element, for which torch has one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import PointwiseStep, Rewrite
from hotloop.observe.ledger.flow import is_chosen
from hotloop.observe.ledger.torch_functions import POINTWISE, same_in_torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation

__all__ = ["composed_functions"]

_MOST = 16  # operators of a function


def composed_functions(flow: Flow) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield the calls of such functions with their operations; no operation is in two of them."""
    pointwise = [_is_pointwise(one) for one in flow.operations]
    known: set[int] = set()
    for last in range(len(flow.operations) - 1, -1, -1):
        if not pointwise[last] or last in known:
            continue
        largest: tuple[Rewrite, list[int]] | None = None
        for numbers, given in _parts(flow, last, pointwise):
            steps = _steps(flow, numbers, given)
            torch_function = same_in_torch(steps) if steps else None
            if torch_function is None:
                continue
            largest = (
                Rewrite(
                    kind="composed function",
                    form=torch_function[0],
                    shapes=(given.full,),
                    needs_grad=(given.needs_grad,),
                    dtypes=(given.dtype,),
                    device=given.device,
                    steps=steps,
                ),
                numbers,
            )
        if largest is not None:
            known.update(largest[1])
            yield largest


def _is_pointwise(one: Operation) -> bool:
    if one.node is not None or not one.operands or not one.shape or not is_chosen(one.stack):
        return False
    if one.name.removeprefix("aten::").removesuffix("_") not in POINTWISE:
        return False
    tensors = sum(one.are_tensors)
    if tensors != len(one.operands) or one.options:
        return False
    return all(operand.full == one.shape or operand.number is not None for operand in one.operands)


def _parts(flow: Flow, last: int, pointwise: Sequence[bool]) -> Iterator[tuple[list[int], Operand]]:
    """Yield operations that end with one and have one tensor as input, smaller sets first.

    Nothing else reads the results in between.
    """
    numbers: list[int] = []
    next_one: int | None = last
    while next_one is not None and len(numbers) < _MOST:
        numbers.insert(0, next_one)
        inside = set(numbers)
        inputs = [
            operand
            for number in numbers
            for operand in flow.operations[number].operands
            if operand.number is None and not inside.issuperset(operand.writers or (-1,))
        ]
        if len(numbers) > 1 and len({operand.identity for operand in inputs}) == 1:
            yield numbers.copy(), inputs[0]
        writers = {number for operand in inputs for number in operand.writers[-1:]}
        next_one = max(
            (
                number
                for number in writers
                if pointwise[number]
                and number not in flow.live
                and flow.operations[number].shape == flow.operations[last].shape
                and flow.readers[number] <= inside
            ),
            default=None,
        )


def _steps(flow: Flow, numbers: Sequence[int], given: Operand) -> tuple[PointwiseStep, ...]:
    """Return what the operations do; nothing if the result is not one function of the input."""
    places = {number: place for place, number in enumerate(numbers, 1)}
    steps = []
    dense = _dense(given.full)
    for number in numbers:
        one = flow.operations[number]
        inputs: list[int] = []
        values: list[float | None] = []
        operands, others = iter(one.operands), iter(one.numbers)
        for is_tensor in one.are_tensors:
            operand = next(operands) if is_tensor else None
            if operand is None or operand.number is not None:
                value = next(others) if operand is None else operand.number
                if not isinstance(value, int | float | None):
                    return ()
                inputs.append(-1)
                values.append(None if value is None else float(value))
                continue
            is_inside = len(operand.writers) == 1 and operand.writers[0] in places
            # A detached result, one of another type and one in another order are none of the input.
            is_bool = is_inside and operand.dtype == "bool"
            if not is_bool and (operand.dtype, operand.needs_grad) != (
                given.dtype,
                given.needs_grad,
            ):
                return ()
            if is_inside and operand.strides not in (given.strides, dense):
                return ()
            inputs.append(places[operand.writers[0]] if is_inside else 0)
        name = one.name.removeprefix("aten::").removesuffix("_")
        steps.append(PointwiseStep(name=name, inputs=tuple(inputs), numbers=tuple(values)))
    return tuple(steps)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor of this shape without gaps."""
    strides, size = [], 1
    for length in reversed(shape):
        strides.append(size)
        size *= max(length, 1)
    return tuple(reversed(strides))
