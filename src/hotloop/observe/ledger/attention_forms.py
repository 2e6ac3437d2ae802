"""Finds attention that is written out as product, softmax and product."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import AttentionMask, Rewrite
from hotloop.observe.ledger.flow import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation

__all__ = ["attention", "sources_of"]

_DEEP = 8  # operators between a product and its softmax
_KEPT = 0.5  # default of bernoulli_, which its calls leave out
_RANK = 4  # dimensions of queries
_PASSED = frozenset(  # they change scores one by one
    f"aten::{name}{suffix}"
    for name in ("mul", "div", "add", "sub", "masked_fill", "where", "_to_copy", "clone")
    for suffix in ("", "_")
)
_SCALES = frozenset({"aten::mul", "aten::mul_", "aten::div", "aten::div_"})
_COPIES = frozenset({"aten::_to_copy", "aten::clone"})
_PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::baddbmm"})


def attention(flow: Flow, softmax: int) -> tuple[Rewrite, list[int]] | None:
    """Return the attention around a softmax, with its operations; or None."""
    one = flow.operations[softmax]
    scores = one.operands[0].full
    above = _climb(flow, one.operands[0], math.prod(scores), _DEEP)
    below = _descend(flow, softmax)
    if above is None or below is None or one.numbers[0] not in (-1, len(scores) - 1):
        return None
    if any(
        flow.reader(number) != reader
        for number, reader in zip(above, [*above[1:], softmax], strict=True)
    ):
        return None
    first, last = flow.operations[above[0]], flow.operations[below[-1]]
    queries, keys = first.operands[-2:]
    carried, values = last.operands[-2:]
    length, others = scores[-2:] if len(scores) > 1 else (0, 0)
    if first.shape[-2:] != (length, others) or below[-2] not in sources_of(flow, carried):
        return None
    if carried.full[-2:] != (length, others) or values.full[-2] != others:
        return None
    masks = _masks(flow, above)
    if masks is None:
        return None
    outer = scores[:-2]
    groups = (outer[0], math.prod(outer[1:])) if len(outer) > 1 else (1, math.prod(outer))
    is_copied = len(outer) > 1 and any(
        flow.operations[writer].name == "aten::clone" for writer in queries.writers
    )
    rewrite = Rewrite(
        kind="attention",
        shapes=(
            (*groups, length, queries.full[-1]),
            (*groups, others, queries.full[-1]),
            (*groups, others, values.full[-1]),
        ),
        needs_grad=(queries.needs_grad, keys.needs_grad, values.needs_grad),
        dtypes=(queries.dtype, one.operands[0].dtype),
        device=queries.device,
        masks=masks,
        dropout=_dropout(flow, below),
        is_copied=is_copied,
    )
    return rewrite, [*above, softmax, *below[1:]]


def _climb(flow: Flow, scores: Operand, size: int, depth: int) -> list[int] | None:
    """Return the operations from the product to the one that makes these scores."""
    if len(scores.writers) != 1 or math.prod(scores.full) != size or not depth:
        return None
    number = scores.writers[0]
    one = flow.operations[number]
    if not one.operands or one.node is not None:
        return None
    if one.name in _PRODUCTS:
        return [number] if math.prod(one.shape) == size else None
    if one.name not in _PASSED:
        return None
    paths = [_climb(flow, operand, size, depth - 1) for operand in one.operands]
    known = [path for path in paths if path is not None]
    return [*known[0], number] if len(known) == 1 else None


def sources_of(flow: Flow, operand: Operand) -> set[int]:
    """Return the operations that made a tensor, before it was copied."""
    sources = set(operand.writers)
    for writer in operand.writers:
        if flow.operations[writer].name in _COPIES:
            sources.update(flow.operations[writer].reads)
    return sources


def _descend(flow: Flow, softmax: int) -> list[int] | None:
    """Return the operations from the softmax to the product with the values."""
    chain = [softmax]
    while (reader := flow.reader(chain[-1])) is not None and len(chain) < _DEEP:
        one = flow.operations[reader]
        if not one.operands:
            return None
        chain.append(reader)
        if one.name in _PRODUCTS and one.name != "aten::baddbmm":
            return chain
        if one.name not in _COPIES | {"aten::native_dropout"} and not _drops(flow, one):
            return None
    return None


def _drops(flow: Flow, one: Operation) -> bool:
    """Whether an operation multiplies by noise of dropout."""
    return one.name in ("aten::mul", "aten::mul_") and _noise(flow, one) is not None


def _noise(flow: Flow, one: Operation) -> float | None:
    """Return the probability to keep a number, of a factor that is drawn at random."""
    above = {number for operand in one.operands for number in operand.writers}
    for number in above.union(*(flow.operations[n].reads for n in above)):
        drawn = flow.operations[number]
        if drawn.name == "aten::bernoulli_":
            return float(drawn.numbers[0]) if drawn.numbers else _KEPT
    return None


def _dropout(flow: Flow, chain: Sequence[int]) -> float:
    """Return the probability to drop a number between the softmax and the product."""
    for number in chain[1:-1]:
        one = flow.operations[number]
        if one.name == "aten::native_dropout":
            return float(one.numbers[0])
        if one.name not in _COPIES:
            return 1.0 - (_noise(flow, one) or 1.0)
    return 0.0


def _masks(flow: Flow, chain: Sequence[int]) -> tuple[AttentionMask, ...] | None:
    """Return the tensors that change the scores; None if no mask can stand for one."""
    masks = []
    inside = set(chain)
    for number in chain:
        one = flow.operations[number]
        is_product = one.name in _PRODUCTS
        for operand in one.operands[:-2] if is_product else one.operands:
            if math.prod(operand.full) == 1 or inside.intersection(operand.writers):
                continue
            if any(flow.operations[writer].name in EMPTY for writer in operand.writers):
                continue  # baddbmm with beta=0
            if one.name in _SCALES or len(operand.full) > _RANK:
                return None
            masks.append(
                AttentionMask(
                    shape=operand.shape,
                    is_added=operand.dtype != "bool",
                    is_causal=operand.is_causal,
                    needs_grad=operand.needs_grad,
                )
            )
    return tuple(masks)
