"""Finds products of one input with several weights, and an LSTM that is a loop over time."""

from __future__ import annotations

import bisect
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import Rewrite
from hotloop.observe.ledger.flow import is_chosen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operation

__all__ = ["product_sets", "products"]

_GATES, _LOOP = 4, 3  # of an LSTM; time steps from which a loop is one
_SIGMOIDS = ("aten::sigmoid", "aten::sigmoid_")
_TANHS = ("aten::tanh", "aten::tanh_")


def products(flow: Flow, sets: Iterable[list[int]]) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield the products of each input with several weights (`sets`), with their operations.

    All products of an LSTM over time are one, with all operations of its loop.
    """
    loops: dict[object, list[list[int]]] = defaultdict(list)
    for numbers in sets:
        loops[_signature(flow, numbers)].append(numbers)
    for loop in loops.values():
        if (lstm := _lstm(flow, loop)) is not None:
            yield lstm
            continue
        for numbers in loop:
            yield _side_by_side(flow, numbers, len(loop)), numbers


def product_sets(flow: Flow) -> Iterator[list[int]]:
    """Yield products of one input in one step with weights of the same kind, two or more."""
    groups: dict[object, list[list[int]]] = defaultdict(list)
    for number, one in enumerate(flow.operations):
        if one.name not in ("aten::mm", "aten::addmm") or len(one.operands) < 2:
            continue
        given, weight = one.operands[-2:]
        is_weight = weight.storage in flow.weights or weight.needs_grad
        if weight.storage is None or not is_weight or not flow.readers[number]:
            continue
        if not is_chosen(one.stack):
            continue
        step = bisect.bisect_right(flow.ends, number)
        of_input = groups[step, given.identity, weight.needs_grad, weight.dtype, one.name]
        if not of_input or weight.storage in (_weight(flow, n) for n in of_input[-1]):
            of_input.append([])
        of_input[-1].append(number)
    sets = (numbers for of_input in groups.values() for numbers in of_input if len(numbers) > 1)
    yield from sorted(sets)


def _weight(flow: Flow, number: int) -> int | None:
    return flow.operations[number].operands[-1].storage


def _signature(flow: Flow, numbers: Sequence[int]) -> object:
    """Return what products have in common that are made with the same weights in one step."""
    step = bisect.bisect_right(flow.ends, numbers[0])
    return step, frozenset(_weight(flow, number) for number in numbers)


def _side_by_side(flow: Flow, numbers: Sequence[int], in_loop: int) -> Rewrite:
    first = flow.operations[numbers[0]]
    given = first.operands[-2]
    weights = [flow.operations[number].operands[-1] for number in numbers]
    return Rewrite(
        kind="one product",
        form="with bias" if first.name == "aten::addmm" else "",
        shapes=(given.full, *(weight.full for weight in weights)),
        needs_grad=(given.needs_grad, *(weight.needs_grad for weight in weights)),
        dtypes=(given.dtype,),
        device=given.device,
        in_loop=in_loop,
    )


# An LSTM in a loop over time.


def _lstm(flow: Flow, loop: Sequence[list[int]]) -> tuple[Rewrite, list[int]] | None:
    """Return the LSTM of which these are the gates in each time step; None if it is another cell.

    All inputs must be known before the loop begins; the state is the output and the cell alone.
    """
    cells = [_cell(flow, numbers) for numbers in loop]
    if len(cells) < _LOOP or any(cell is None for cell in cells):
        return None
    known = [cell for cell in cells if cell is not None]
    begin = min(known[0])
    for before, after in pairwise(known):
        join, forgets = (flow.operations[number] for number in after[2:4])
        if before[0] not in join.reads or before[1] not in forgets.reads:
            return None
    joins = [flow.operations[cell[2]] for cell in known]
    if any(len(one.operands) != 2 for one in joins):
        return None
    hidden = flow.operations[known[0][0]].shape[-1]
    states = [known[0][0] in one.writers for one in joins[1].operands]
    if states.count(True) != 1:
        return None
    inputs = [one.operands[states.index(False)] for one in joins]
    if any(max(one.writers, default=-1) >= begin for one in inputs):
        return None
    first, size = inputs[0], inputs[0].full[-1]
    gates = flow.operations[loop[0][0]]
    rewrite = Rewrite(
        kind="one product",
        form="lstm" if gates.name == "aten::addmm" else "lstm without bias",
        shapes=((len(loop), *first.full), (size + hidden, hidden)),
        needs_grad=(any(one.needs_grad for one in inputs), gates.operands[-1].needs_grad),
        dtypes=(first.dtype,),
        device=first.device,
        in_loop=len(loop),
    )
    return rewrite, sorted({number for cell in known for number in cell}.union(*loop))


def _cell(flow: Flow, gates: Sequence[int]) -> list[int] | None:
    """Return the operations of an LSTM's cell: output, cell, join and its part that forgets first.

    None if the gates are read by anything else, or in another way.
    """
    if len(gates) != _GATES:
        return None
    writers = flow.operations[gates[0]].operands[-2].writers
    join = writers[0] if len(writers) == 1 else -1
    activated = [flow.reader(gate) for gate in gates]
    if join < 0 or flow.operations[join].name != "aten::cat" or None in activated:
        return None
    known = [number for number in activated if number is not None]
    tanhs = [number for number in known if flow.operations[number].name in _TANHS]
    sigmoids = [number for number in known if flow.operations[number].name in _SIGMOIDS]
    if (len(tanhs), len(sigmoids)) != (1, _GATES - 1):
        return None
    enters = flow.reader(tanhs[0])  # input gate x candidate
    cell = None if enters is None else flow.reader(enters)
    if enters is None or cell is None or not _is(flow.operations[cell], "add"):
        return None
    others = [flow.reader(number) for number in sigmoids if flow.reader(number) != enters]
    forgets = next((n for n in others if n in flow.operations[cell].reads), None)
    output = next((n for n in others if n != forgets), None)
    if forgets is None or output is None or len(others) != _GATES - 2:
        return None
    shown = [n for n in flow.operations[output].reads if flow.operations[n].name in _TANHS]
    if len(shown) != 1 or cell not in flow.operations[shown[0]].reads:
        return None
    if not all(_is(flow.operations[number], "mul") for number in (enters, forgets, output)):
        return None
    return [output, cell, join, forgets, enters, shown[0], *known]


def _is(operation: Operation, name: str) -> bool:
    return operation.name in (f"aten::{name}", f"aten::{name}_")
