"""Finds recurrent layers of torch that a Python loop calls once for each time step.

One call on the whole sequence does the same, and multiplies all inputs at once, where no input
depends on what the layer returned before, and the state is handed on as it was returned. Only the
dataflow decides.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation, RawStack

__all__ = ["recurrent_cells"]

_LOOP = 8  # calls of a layer in a step from which they are a loop over time
_LSTM = "aten::mkldnn_rnn_layer"  # an LSTM's layer in one operator
_LAYERS = "torch/nn/modules/rnn.py"
_RECORDER = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")  # through them its mode is called
_NAMES = {4: "lstm", 3: "gru", 1: "rnn_tanh"}  # by the rows of a weight for each unit


def recurrent_cells(flow: Flow, breaks: Sequence[int]) -> Iterator[tuple[Rewrite, list[int]]]:
    """Yield each layer that a step calls again and again, with its operations.

    `breaks` are the operations before each backward pass and each value that Python reads: what
    comes after may depend on it.
    """
    stacks = {id(one.stack): one.stack for one in flow.operations}
    callers = {number: _caller(stack) for number, stack in stacks.items()}
    of = [callers[id(one.stack)] if one.node is None else None for one in flow.operations]
    for begin, end in pairwise((0, *flow.ends)):
        step = _Step(flow, of, begin, end)
        for numbers in step.states():
            if bisect.bisect(breaks, numbers[-1]) > bisect.bisect(breaks, numbers[0]):
                continue
            of_input = step.inputs(numbers)
            operations = _operations(flow, of, numbers, of_input) if of_input else []
            if (rewrite := _rewrite(flow, numbers, of_input, operations)) is not None:
                yield rewrite, operations


class _Step:
    """The products with the weights of recurrent layers in one step."""

    def __init__(
        self, flow: Flow, callers: Sequence[RawStack | None], begin: int, end: int
    ) -> None:
        self._flow = flow
        self._numbers = [n for n in range(begin, end) if flow.operations[n].node is None]
        self._products: dict[int, list[int]] = defaultdict(list)  # by the address of the weight
        self._calls: dict[int, int] = {}  # of each operation in a layer, where its call begins
        self._layers: dict[int, int] = {}  # of a call, its first weight
        call: int | None = None
        for number in self._numbers:
            if callers[number] is None:
                call = None
                continue
            weight = _weight(flow, number)
            is_next = weight is not None and call is not None and self._layers.get(call) == weight
            if call is None or is_next or callers[number] != callers[call]:
                call = number
            self._calls[number] = call
            if weight is not None:
                self._layers.setdefault(call, weight)
                self._products[weight].append(number)

    def states(self) -> Iterator[list[int]]:
        """Yield the products of each state that is handed on from call to call."""
        again = self._again(through_states=True) if self._products else set[int]()
        for numbers in self._products.values():
            if len(numbers) < _LOOP or not again.issuperset(numbers[1:]):
                continue
            states = [(n, _given(self._flow.operations[n])[1].writers) for n in numbers[1:]]
            if all(writers and all(self._is_state(n, w) for w in writers) for n, writers in states):
                yield numbers

    def inputs(self, numbers: Sequence[int]) -> list[int]:
        """Return the products of the inputs that belong to those of a state.

        Nothing, if one of them depends on what the layer returned before.
        """
        readers = self._flow.readers[numbers[0]]
        for products in self._products.values():
            if len(products) != len(numbers):
                continue
            is_whole = self._flow.operations[products[0]].name == _LSTM
            if is_whole != (products == numbers):
                continue
            if not is_whole and readers.isdisjoint(self._flow.readers[products[0]]):
                continue
            given = [(n, _given(self._flow.operations[n])[0].writers) for n in products]
            is_fed_back = any(self._is_state(n, w) for n, writers in given for w in writers)
            if self._fed_back.isdisjoint(products) and not is_fed_back:
                return products
        return []

    @cached_property
    def _fed_back(self) -> set[int]:
        """The products whose input depends on what the layer returned before."""
        return self._again(through_states=False)

    def _is_state(self, number: int, read: int) -> bool:
        """Whether an operation of a layer reads what an earlier call of this layer has made."""
        call, earlier = self._calls[number], self._calls.get(read)
        if earlier is None or earlier >= call:
            return False
        return self._layers.get(earlier) == self._layers.get(call)

    def _again(self, *, through_states: bool) -> set[int]:
        """Return the products that depend on an earlier one with the same weight.

        Without states: by what a call is given beside them. The layers of one nn.GRU share a tensor
        for their states, which hides what is whose.
        """
        found = set[int]()
        before: dict[int, frozenset[int]] = {}  # weights that a result depends on
        nothing = frozenset[int]()
        for number in self._numbers:
            reads: Iterable[int] = self._flow.operations[number].reads
            if number in self._calls and not through_states:
                reads = [read for read in reads if not self._is_state(number, read)]
            known = nothing.union(*(before.get(read, nothing) for read in reads))
            weight = _weight(self._flow, number) if number in self._calls else None
            if weight is not None:
                found.update({number} if weight in known else ())
                known |= {weight}
            if known:
                before[number] = known
        return found


def _weight(flow: Flow, number: int) -> int | None:
    """Return the address of the weight of a product, that of the state for a whole LSTM."""
    one = flow.operations[number]
    if one.name == _LSTM:
        weight = one.operands[2] if len(one.operands) > 2 else None
    else:
        is_product = one.name in ("aten::mm", "aten::addmm") and len(one.operands) >= 2
        weight = one.operands[-1] if is_product else None
    known = weight is not None and (weight.storage in flow.weights or weight.needs_grad)
    return weight.storage if weight is not None and known else None


def _caller(stack: RawStack) -> RawStack | None:
    """Return the frames that call a recurrent layer of torch; None: none calls the operator."""
    files = [code.co_filename.replace("\\", "/") for code, _ in stack]
    first = next((n for n, file in enumerate(files) if not file.endswith(_RECORDER)), len(files))
    last = first
    while last < len(files) and files[last].endswith(_LAYERS):
        last += 1
    return stack[last:] if last > first else None


def _given(operation: Operation) -> tuple[Operand, Operand]:
    """Return the input and the state of a whole LSTM, or the input of a product for both."""
    if operation.name == _LSTM:
        return operation.operands[0], operation.operands[5]
    return operation.operands[-2], operation.operands[-2]


def _rewrite(
    flow: Flow, numbers: Sequence[int], of_input: Sequence[int], operations: Sequence[int]
) -> Rewrite | None:
    if not of_input:
        return None
    first, entered = flow.operations[numbers[0]], flow.operations[of_input[0]]
    given = [_given(flow.operations[number])[0] for number in of_input]
    if first.name == _LSTM:
        weights = [entered.operands[1].full, first.operands[2].full]
        has_bias = True  # without one, it is given zeros
    else:
        weights = [(one.operands[-1].full[1], one.operands[-1].full[0]) for one in (entered, first)]
        has_bias = first.name == "aten::addmm"
    (rows, size), (of_state, units) = weights
    name = _NAMES.get(of_state // units)
    rows_of_batch = {one.full[-2:] for one in given}
    if name is None or rows != of_state or len(rows_of_batch) != 1:
        return None
    if name == "rnn_tanh" and not _is_tanh(flow, numbers[0]):
        name = "rnn_relu"
    batch = given[0].full[-2]
    # A layer that takes sequences joins the results of their time steps.
    names = {flow.operations[number].name for number in operations}
    takes_sequence = not names.isdisjoint({_LSTM, "aten::stack"})
    layer = name if takes_sequence else f"{name}_cell"
    return Rewrite(
        kind="recurrent cell",
        form=layer if has_bias else f"{layer} without bias",
        shapes=((len(numbers), batch, size), (rows, size), (rows, units)),
        needs_grad=(
            any(one.needs_grad for one in given),
            *(one.operands[2 if one.name == _LSTM else -1].needs_grad for one in (entered, first)),
        ),
        dtypes=(given[0].dtype,),
        device=given[0].device,
        in_loop=len(numbers),
    )


def _is_tanh(flow: Flow, number: int) -> bool:
    reader = flow.reader(number)
    shown_by = flow.readers[reader] if reader is not None else ()
    return any(flow.operations[one].name.startswith("aten::tanh") for one in shown_by)


def _operations(
    flow: Flow,
    callers: Sequence[RawStack | None],
    numbers: Sequence[int],
    of_input: Sequence[int],
) -> list[int]:
    """Return the operations of the layer: from its products to those of another call or layer."""
    taken: list[int] = []
    for products in zip(numbers, of_input, strict=True):
        begin = min(products)
        for number in range(begin, len(callers)):
            is_other = number not in products and _weight(flow, number) is not None
            if callers[number] != callers[begin] or is_other:
                break
            taken.append(number)
    return sorted(set(taken))
