"""Finds products of rows of which many are copies: they could be multiplied before they are copied.

The input is one tensor that was expanded or repeated, or whose rows were chosen from a table; or
several beside each other, of which some were. A part that all calls of a Python loop read counts
once for all of them.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import RepeatedPart, Rewrite
from hotloop.observe.ledger.flow import is_chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation

__all__ = ["repeated_rows"]

_PRODUCTS = frozenset({"aten::mm", "aten::addmm"})
_COPIES = frozenset({"aten::clone", "aten::_to_copy"})
_MOST = 0.8  # of the product, that is left; the experiment decides
_FEWEST = 16  # rows of a product


def repeated_rows(flow: Flow) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield such products, each with the operation that puts its input together."""
    calls: list[tuple[int, list[Operand], list[int]]] = []
    times = Counter[object]()  # calls of a step that multiply a part by the same weight
    for number, one in enumerate(flow.operations):
        if one.name not in _PRODUCTS or len(one.operands) < 2 or not flow.readers[number]:
            continue
        given, weight = one.operands[-2:]
        is_weight = weight.needs_grad or weight.storage in flow.weights
        if not is_weight or given.full[0] < _FEWEST or not is_chosen(one.stack):
            continue
        parts, chain = _parts(flow, number)
        calls.append((number, parts, chain))
        times.update({_key(flow, number, part) for part in parts if len(parts) > 1})
    for number, parts, chain in calls:
        given, weight = flow.operations[number].operands[-2:]
        rows, columns = given.full
        repeated = tuple(
            _part(flow, part, max(1, times[_key(flow, number, part)])) for part in parts
        )
        left = sum(part.columns * part.rows / part.calls for part in repeated)
        if left > _MOST * rows * columns:
            continue
        rewrite = Rewrite(
            kind="repeated rows",
            shapes=(given.full, weight.full),
            needs_grad=(any(part.needs_grad for part in parts), weight.needs_grad),
            dtypes=(given.dtype,),
            device=given.device,
            repeated=repeated,
        )
        yield rewrite, [*chain, number]


def _key(flow: Flow, number: int, part: Operand) -> object:
    weight = flow.operations[number].operands[-1]
    return bisect.bisect_right(flow.ends, number), weight.storage, weight.identity, part.identity


def _parts(flow: Flow, number: int) -> tuple[list[Operand], list[int]]:
    """Return the tensors beside each other that a product's input is made of, and the operation."""
    given = flow.operations[number].operands[-2]
    joined = _writer(flow, given)
    if joined is None or joined.name != "aten::cat" or not joined.operands:
        return [given], []
    parts = list(joined.operands)
    rank = len(parts[0].full)
    dimension = next((one for one in joined.numbers if isinstance(one, int)), 0)
    is_beside = dimension in (-1, rank - 1) and all(len(part.full) == rank for part in parts)
    if not is_beside or sum(part.full[-1] for part in parts) != given.full[-1]:
        return [given], []
    (writer,) = given.writers
    return parts, [writer] if flow.reader(writer) == number else []


def _writer(flow: Flow, operand: Operand) -> Operation | None:
    if operand.storage is not None or len(operand.writers) != 1:
        return None
    return flow.operations[operand.writers[0]]


def _part(flow: Flow, part: Operand, calls: int) -> RepeatedPart:
    """Return a part with the rows of which its own are copies: all of them, if it has none."""
    columns, rows = part.full[-1], math.prod(part.full[:-1])
    fewer, is_chosen, writer = math.prod(part.shape[:-1]), False, _writer(flow, part)
    if fewer == rows and writer is not None:
        source = writer.operands[0] if writer.operands else None
        if len(writer.table_shape) == 2 and writer.table_shape[1] == columns:
            fewer, is_chosen = writer.table_shape[0], True
        elif source is not None and source.full[-1:] == (columns,):
            of_copies = source.shape if writer.name in _COPIES else ()
            of_copies = source.full if writer.name == "aten::repeat" else of_copies
            fewer = math.prod(of_copies[:-1]) if of_copies else rows
    fewer = min(rows, fewer)
    return RepeatedPart(
        columns=columns,
        rows=fewer,
        needs_grad=part.needs_grad,
        is_chosen=is_chosen and fewer < rows,
        calls=calls,
    )
