"""Finds products with a matrix that is almost all zeros and is kept as if it were not."""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import Rewrite, SparseFactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand

__all__ = ["sparse_products"]

_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm"})
_MOST_FILLED = 0.1  # share of the numbers that are not 0; the experiment decides


def sparse_products(flow: Flow) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield the products of such a matrix, each with its operation."""
    known: dict[object, set[int]] = defaultdict(set)  # steps in which a matrix is multiplied
    calls: list[tuple[int, int, Operand, Operand]] = []
    for number, one in enumerate(flow.operations):
        if one.name not in _PRODUCTS or len(one.operands) < 2 or not flow.readers[number]:
            continue
        factors = one.operands[-2:]
        if one.name == "aten::bmm" and factors[0].full[0] != 1:
            continue  # sparse matrices of torch have no batches that are fast
        for position, factor in enumerate(factors):
            if factor.zeros is not None and factor.zeros.filled <= _MOST_FILLED:
                calls.append((number, position, factor, factors[1 - position]))
                known[factor.identity].add(bisect.bisect_right(flow.ends, number))
                break
    for number, position, factor, other in calls:
        assert factor.zeros is not None
        sparse = SparseFactor(
            is_left=position == 0,
            filled=float(f"{factor.zeros.filled:.1g}"),
            is_constant=len(known[factor.identity]) > 1,
            is_one_hot=factor.zeros.is_one_hot and position == 0,
        )
        yield (
            Rewrite(
                kind="sparse product",
                shapes=(factor.full[-2:], other.full[-2:]),
                needs_grad=(False, other.needs_grad),
                dtypes=(factor.dtype,),
                device=factor.device,
                sparse=sparse,
            ),
            [number],
        )
