"""Finds sums of products, and distances of all pairs, that are written as a broadcast and a sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import Rewrite
from hotloop.observe.ledger.flow import is_chosen

if TYPE_CHECKING:
    from hotloop.observe.ledger.flow import Flow

__all__ = ["contraction"]

_LARGER = 4  # times both inputs: the result of a broadcast
_SUMS = frozenset({"aten::sum", "aten::mean"})


def contraction(flow: Flow, number: int) -> tuple[Rewrite, list[int]] | None:
    """Return the contraction that begins with an operation, with its operations; or None."""
    one = flow.operations[number]
    if len(one.operands) != 2 or not is_chosen(one.stack):
        return None
    rank = len(one.shape)
    shapes = [(1,) * (rank - len(x.shape)) + x.shape for x in one.operands]
    left, right = ({d for d in range(rank) if shape[d] > 1} for shape in shapes)
    inputs = sum(math.prod(shape) for shape in shapes)
    if not left - right or not right - left or math.prod(one.shape) < _LARGER * inputs:
        return None
    chain, form = [number], "product"
    if one.name == "aten::sub":
        reader = flow.reader(number)
        form = _distance(flow, number, reader)
        if reader is None or not form:
            return None
        chain.append(reader)
    if form != "norm":
        reader = flow.reader(chain[-1])
        if reader is None or flow.operations[reader].name not in _SUMS:
            return None
        chain.append(reader)
    last = flow.operations[chain[-1]]
    if last.operands[0].full != one.shape:  # a view with other dimensions lies between
        return None
    dimensions = last.numbers[form == "norm" :][:1]
    listed = dimensions[0] if dimensions and dimensions[0] is not None else None
    reduced = range(rank) if not isinstance(listed, list | tuple) or not listed else listed
    summed = tuple(sorted(int(d) % rank for d in reduced))
    both = left & right
    if both.isdisjoint(summed) or (form in ("absolute", "norm") and not both.issuperset(summed)):
        return None
    rewrite = Rewrite(
        kind="contraction",
        form=form,
        shapes=tuple(shapes),
        needs_grad=tuple(operand.needs_grad for operand in one.operands),
        dtypes=(one.operands[0].dtype,),
        device=one.operands[0].device,
        reduced=summed,
    )
    return rewrite, chain


def _distance(flow: Flow, difference: int, reader: int | None) -> str:
    """Return what is done with a difference; "" for what is no distance."""
    if reader is None:
        return ""
    one = flow.operations[reader]
    match one.name:
        case "aten::pow" if one.numbers and one.numbers[0] == 2:
            return "squared"
        case "aten::mul" if all(x.writers == (difference,) for x in one.operands):
            return "squared" if len(one.operands) == 2 else ""
        case "aten::abs":
            return "absolute"
        case "aten::linalg_vector_norm" if one.numbers and one.numbers[0] == 2:
            return "norm"
    return ""
