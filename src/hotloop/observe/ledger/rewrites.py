"""Finds, in the dataflow of a window, work that another form of the same operators does.

Only the operators decide, no name in the script. An intermediate result that anything else reads is
needed as it is, and its work is left alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.attention_forms import attention
from hotloop.observe.ledger.composed_functions import composed_functions
from hotloop.observe.ledger.contractions import contraction
from hotloop.observe.ledger.flow import Flow
from hotloop.observe.ledger.looped_operators import looped
from hotloop.observe.ledger.products import product_sets, products
from hotloop.observe.ledger.recurrent_cells import recurrent_cells
from hotloop.observe.ledger.repeated_rows import repeated_rows
from hotloop.observe.ledger.sparse_products import sparse_products
from hotloop.observe.ledger.split_heads import split_heads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.core.case.rewrite import Rewrite
    from hotloop.observe.ledger.operation import RawStack
    from hotloop.observe.ledger.window import Window

__all__ = ["found", "rewrites"]

MOST = 8  # rewrites of a window, and loops


def rewrites(windows: Sequence[Window]) -> tuple[Rewrite, ...]:
    """Return what another form may do faster in the first window, the most expensive first."""
    if not windows:
        return ()
    recorder, live = windows[0].recorder, windows[0].live
    breaks = sorted([*recorder.reads, *(begin for begin, _ in recorder.passes)])
    if not windows[0].complete:  # the beginning of a step that has too many operators
        end = len(recorder.operations)
        begun = Flow(recorder.operations, [end, end], range(end), recorder.weights)
        return tuple(looped(begun, breaks)[:MOST])
    flow = Flow(recorder.operations, recorder.ends, live, recorder.weights)
    known = found(flow, breaks, framework=recorder.framework)
    return (*known, *looped(flow, breaks)[:MOST])


def found(flow: Flow, breaks: Sequence[int] = (), *, framework: int = 0) -> tuple[Rewrite, ...]:
    """Return the rewrites of some recorded steps; the last step does not count.

    `breaks` are the operations before each backward pass and each value that Python reads;
    `framework` is the time of an operator that is not the device's, in nanoseconds.
    """
    counted, steps = flow.ends[-2], len(flow.ends) - 1
    of_node: dict[int, float] = defaultdict(float)
    whole = 0.0
    for one in flow.operations[:counted]:
        spent = max(0, one.spent - framework) * 1e-9
        whole += spent
        if one.node is not None:
            of_node[one.node] += spent
    calls: dict[Rewrite, int] = Counter()
    seconds: dict[Rewrite, float] = defaultdict(float)
    places: dict[Rewrite, dict[SourceLocation, None]] = defaultdict(dict)
    for rewrite, numbers in _calls(flow, breaks):
        if numbers[-1] >= counted:
            continue
        operations = [flow.operations[number] for number in numbers]
        at = _places(one.stack for one in operations)
        if rewrite.kind == "split heads":  # each line is that of all heads: who calls them?
            at = (*_callers(one.stack for one in operations), *at)
        if rewrite.kind == "composed function":  # one function, wherever it is called
            places[rewrite].update(dict.fromkeys(at))
        else:
            rewrite = replace(rewrite, places=at)
        calls[rewrite] += 1
        spent = sum(max(0, one.spent - framework) * 1e-9 for one in operations)
        nodes = {one.sequence for one in operations} if any(rewrite.needs_grad) else set[int]()
        seconds[rewrite] += spent + sum(of_node[node] for node in nodes)
    result = [
        replace(
            one,
            places=one.places or tuple(places[one]),
            calls=calls[one] / steps,
            seconds=seconds[one] / steps,
            share=seconds[one] / whole if whole else 1.0,
        )
        for one in calls
        if one.places or places[one]
    ]
    return tuple(sorted(result, key=lambda one: -one.seconds)[:MOST])


def _places(stacks: Iterable[RawStack]) -> tuple[SourceLocation, ...]:
    """Return the innermost lines of the project, by their order in the file."""
    frames = {next((one for one in shown(stack) if one.own), None) for stack in stacks}
    places = {(one.file, one.line) for one in frames if one is not None}
    return tuple(SourceLocation(file=file, line=line) for file, line in sorted(places))


def _callers(stacks: Iterable[RawStack]) -> list[SourceLocation]:
    """Return the lines of the project that call the functions of the innermost ones."""
    own = [[frame for frame in shown(stack) if frame.own] for stack in stacks]
    above = {(frames[1].file, frames[1].line) for frames in own if len(frames) > 1}
    return [SourceLocation(file=file, line=line) for file, line in sorted(above)]


def _calls(flow: Flow, breaks: Sequence[int]) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield each call with the numbers of its operations, in their order."""
    attentions = []
    for number, one in enumerate(flow.operations):
        if not one.operands:
            continue
        match one.name:
            case "aten::_softmax":
                call = attention(flow, number)
                attentions += [call] if call is not None else []
            case "aten::mul" | "aten::sub":
                call = contraction(flow, number)
            case _:
                call = None
        if call is not None:
            yield call[0], sorted(call[1])
    sets = list(product_sets(flow))
    yield from products(flow, sets)
    yield from composed_functions(flow)
    yield from recurrent_cells(flow, breaks)
    yield from sparse_products(flow)
    yield from repeated_rows(flow)
    yield from split_heads(flow, attentions, sets)
