"""Decides what each recorded operation was for, from what reads its results.

An operation is live if its result reaches a loss that is differentiated, a tensor that is older
than the window (weights, the optimizer's state, running statistics), a value that the script reads,
or a tensor that the script still has. All other work is dead.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hotloop.observe.ledger.operation import Operation, RawStack

__all__ = ["MOVES", "depending", "passed_again", "purposes", "reaching"]

MOVES = frozenset(
    {"aten::_to_copy", "aten::copy_", "aten::clone", "aten::contiguous", "aten::_pin_memory"}
)
_RECURRENT, _WRAPPERS = "torch/nn/modules/rnn.py", 4
# They make a tensor of one value. To make it again is repeated work only if repeated work alone
# reads it.
_CONSTANTS = frozenset(
    f"aten::{name}{suffix}"
    for name in ("zeros", "ones", "full", "zero", "fill", "new_zeros", "new_ones", "new_full")
    for suffix in ("", "_", "_like")
) | {"aten::scalar_tensor", "aten::lift_fresh", "aten::detach"}


def purposes(
    operations: Sequence[Operation],
    *,
    roots: Collection[int],
    weights: Collection[int],
    state: Collection[int],
    backward: Collection[int],
    again: Collection[int] = (),
) -> list[dict[str, float]]:
    """Return for each operation the shares of its time by row of the ledger, which sum to 1.

    `roots` are live by themselves, `weights` and `state` are storages (of parameters, and of what
    was written), `backward` are the operations inside a backward pass, `again` those of a further
    pass through the same graph (`passed_again`).
    """
    live = reaching(operations, roots)
    repeated = _repeated(operations).union(again)
    frozen = _frozen(operations, weights, state)
    padded = _padded(operations)
    result = []
    for number, operation in enumerate(operations):
        if operation.is_view:
            shares = {"host": 1.0}
        elif number not in live:
            shares = {"dead": 1.0}
        elif number in repeated:
            recomputes = number in backward and operation.node is None
            shares = {"recomputed" if recomputes else "repeated": 1.0}
        elif number in frozen:
            shares = {"frozen": 1.0}
        elif operation.name in MOVES:
            shares = {"moved": 1.0}
        else:
            padding = padded.get(number, 0.0)
            shares = {"padding": padding, "useful": 1.0 - padding} if padding else {"useful": 1.0}
        result.append(shares)
    return result


def reaching(operations: Sequence[Operation], roots: Collection[int]) -> set[int]:
    """Return the operations whose results reach one of `roots`."""
    open_ = list(roots)
    live: set[int] = set()
    while open_:
        number = open_.pop()
        if number in live:
            continue
        live.add(number)
        if not operations[number].factor_zero:  # times 0: what is below does not matter
            open_ += operations[number].reads
    return live


def _repeated(operations: Sequence[Operation]) -> set[int]:
    """Return the operations that an earlier one has done with the same values."""
    seen: set[int] = set()
    again: set[int] = set()
    for number, operation in enumerate(operations):
        if operation.value is None or operation.changed or operation.name in _CONSTANTS:
            continue
        if operation.value in seen:
            again.add(number)
        seen.add(operation.value)
    readers: dict[int, set[int]] = defaultdict(set)  # of each constant
    for number, operation in enumerate(operations):
        for read in operation.reads:
            if operations[read].name in _CONSTANTS:
                readers[read].add(number)
    return again | {constant for constant, read_by in readers.items() if read_by <= again}


def passed_again(
    operations: Sequence[Operation], passes: Sequence[tuple[int, bool]], ends: Sequence[int]
) -> set[int]:
    """Return the operations of a second backward pass of one step through the same node.

    Gradients of several losses are added up: one pass from the sum of the losses gives the same.
    `passes` has the operations before each pass, and whether it adds to the weights' gradients;
    `ends` the operations until the end of each step.
    """
    begins = [begin for begin, _ in passes]
    first: dict[tuple[int, int], int] = {}  # step and node -> number of the pass
    result = set[int]()
    for number, operation in enumerate(operations):
        of_pass = bisect.bisect_right(begins, number) - 1
        if operation.node is None or of_pass < 0 or not passes[of_pass][1]:
            continue
        step = bisect.bisect_right(ends, number)
        if first.setdefault((step, operation.node), of_pass) != of_pass:
            result.add(number)
    return result


def depending(
    operations: Sequence[Operation], on: Callable[[Operation], bool], *, choices: bool = True
) -> set[int]:
    """Return the operations for which `on` is true, and all that depend on their results.

    Without `choices`, which rows of a table are read does not count, only what is in them.
    """
    result = set[int]()
    for number, operation in enumerate(operations):
        reads = operation.reads if choices or operation.table is None else operation.table
        if on(operation) or not result.isdisjoint(reads):
            result.add(number)
    return result


def _frozen(
    operations: Sequence[Operation], weights: Collection[int], state: Collection[int]
) -> set[int]:
    """Return the forward operations on weights below which nothing is trained or drawn at random.

    The weights that were not written in the window are frozen in it. Rows of a table that are drawn
    at random have the same results whenever they are drawn.
    """
    still, trained = set(weights) - set(state), set(state)

    def varies(one: Operation) -> bool:
        return one.is_random or not trained.isdisjoint(one.outside)

    used = depending(operations, lambda one: not still.isdisjoint(one.outside))
    used -= depending(operations, varies, choices=False)
    return {number for number in used if operations[number].node is None}


def _padded(operations: Sequence[Operation]) -> dict[int, float]:
    """Return the share of each operation's positions that no loss depends on.

    Their gradient is exactly 0, and the cause is known: the lowest layer has the same input at all
    of them, or the loss ignores their targets.
    """
    pads = max(
        (float(one.unused) for one in operations if one.constant and one.unused is not None),
        default=0.0,
    )
    ignored = max(
        (float(one.ignored) for one in operations if one.ignored is not None), default=0.0
    )
    most = max(pads, ignored)
    recurrent = {
        one.sequence for one in operations if one.node is None and _is_recurrent(one.stack)
    }
    if not most and not recurrent:
        return {}
    of_node: dict[int, float] = defaultdict(float)
    for operation in operations:
        if operation.node is not None and operation.unused is not None:
            share = min(float(operation.unused), most)
            of_node[operation.node] = max(of_node[operation.node], share)
    shares = {}
    walks = _walked(operations, ignored)
    for number, operation in enumerate(operations):
        node = operation.sequence if operation.node is None else operation.node
        share = max(of_node.get(node, 0.0), walks if node in recurrent else 0.0)
        if share:
            shares[number] = share
    return shares


def _is_recurrent(stack: RawStack) -> bool:
    """Whether an operation runs directly in a recurrent layer, perhaps below Dynamo's wrappers."""
    files = (code.co_filename.replace("\\", "/") for code, _ in stack[:_WRAPPERS])
    return any(file.endswith(_RECURRENT) for file in files)


def _walked(operations: Sequence[Operation], ignored: float) -> float:
    """Return the share of the steps of recurrent layers that are padding.

    Such a layer walks through padding at the end of rows, and a reversed one begins there, so that
    gradients reach it. That it is padding is known from the ids: the embedding declares the id, or
    the loss ignores as many targets. Packed sequences have none.
    """
    if any(one.name == "aten::_pack_padded_sequence" for one in operations):
        return 0.0
    return max(
        (
            float(one.tail) if one.declared else min(float(one.tail), ignored)
            for one in operations
            if one.tail is not None
        ),
        default=0.0,
    )
