"""Finds attention whose heads are computed one by one, each with weights of its own."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import Rewrite
from hotloop.observe.ledger.attention_forms import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow

__all__ = ["split_heads"]

_FACTORS = 3  # queries, keys and values


def split_heads(
    flow: Flow, attentions: Iterable[tuple[Rewrite, list[int]]], sets: Iterable[list[int]]
) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield heads whose queries, keys and values are products of one input, with all operations.

    `attentions` are those of `attention_forms`, `sets` the products of one input.
    """
    of_product = {number: n for n, members in enumerate(sets) for number in members}
    heads: dict[tuple[int, Rewrite], list[list[int]]] = defaultdict(list)
    for head, numbers in attentions:
        if (made := _products_of(flow, numbers, of_product)) is not None:
            heads[of_product[made[0]], head].append([*made, *numbers])
    for (_, head), calls in heads.items():
        rewrite = _together(flow, head, calls)
        if rewrite is not None:
            yield rewrite, sorted({number for call in calls for number in call})


def _products_of(
    flow: Flow, numbers: Sequence[int], of_product: dict[int, int]
) -> list[int] | None:
    """Return the products that made queries, keys and values; None if they have several inputs."""
    first, last = flow.operations[numbers[0]], flow.operations[numbers[-1]]
    made = []
    for operand in (*first.operands[-2:], last.operands[-1]):
        known = [number for number in sources_of(flow, operand) if number in of_product]
        if len(known) != 1:
            return None
        made += known
    is_one = len({of_product[number] for number in made}) == 1
    return made if is_one and len(set(made)) == _FACTORS else None


def _together(flow: Flow, head: Rewrite, calls: Sequence[list[int]]) -> Rewrite | None:
    """Return the rewrite of heads that look alike; None if there is one, or they share weights."""
    made = {number for call in calls for number in call[:_FACTORS]}
    product = flow.operations[calls[0][0]]
    given, weight = product.operands[-2:]
    (groups, batch, length, _), (_, _, others, _), _ = head.shapes
    if len(calls) < 2 or len(made) != _FACTORS * len(calls) or groups != 1:
        return None
    if length != others or math.prod(given.full[:-1]) != batch * length:
        return None
    return Rewrite(
        kind="split heads",
        form="with bias" if product.name == "aten::addmm" else "",
        shapes=(given.full, head.shapes[0][1:], head.shapes[2][1:]),
        needs_grad=(given.needs_grad, weight.needs_grad, weight.needs_grad),
        dtypes=head.dtypes,
        device=head.device,
        masks=head.masks,
        dropout=head.dropout,
        in_loop=len(calls),
    )
