"""Finds operators that a Python loop calls on many tensors, of which none depends on another.

One call on all tensors does the same. Only the dataflow decides: of the calls of one operator at
one place, with tensors of the same shapes, those are joined that nothing connects, and between
which no backward pass lies and no value that Python reads: an environment may answer to it. Python
numbers that are written into a tensor one by one are such calls, too.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.case.rewrite import LoopedOperator, Rewrite
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.flow import is_chosen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.observe.ledger.flow import Flow
    from hotloop.observe.ledger.operation import Operand, Operation, RawStack

__all__ = ["looped"]

_MANY, _MOST = 8, 1024  # calls that one call replaces
_COPY = "aten::copy_"
_WHOLE = "aten::new_empty_strided"  # autograd's CopySlices calls it for the gradient of a tensor
_NUMBER = "aten::lift_fresh"  # a Python number becomes a tensor
_GROUPS = 24  # operators that are followed, those first that take most of the time
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def looped(flow: Flow, breaks: Sequence[int]) -> list[Rewrite]:
    """Return the operators that loops call in the counted steps, the most expensive first.

    `breaks` are the operations before each backward pass and each value that Python reads: what
    comes after may depend on it. The last step does not count.
    """
    counted, steps = flow.ends[-2], len(flow.ends) - 1
    groups: dict[object, list[int]] = defaultdict(list)
    for number, one in enumerate(flow.operations[:counted]):
        if (signature := _signature(flow, number, one)) is not None:
            groups[signature].append(number)
    costs = _Costs(flow.operations[:counted])
    large = [numbers for numbers in groups.values() if len(numbers) >= _MANY * steps]
    large.sort(key=costs.of, reverse=True)
    result = []
    for numbers in large[:_GROUPS]:
        sizes = [size for size in _joined(flow, numbers, breaks) if size >= _MANY]
        if sizes:
            result.append(_rewrite(flow, numbers, sizes, costs))
    of_line: dict[object, float] = defaultdict(float)
    for loop in result:
        of_line[loop.places] += loop.seconds
    # The views that a line makes for its operators cost as much as they do, and go with them.
    return [
        replace(loop, share=costs.share(loop.places) * loop.seconds / of_line[loop.places])
        for loop in result
        if loop.places
    ]


def _signature(flow: Flow, number: int, one: Operation) -> object | None:
    """Return what the calls of one operator in a loop have in common; None: it cannot be joined."""
    if not one.operands or one.is_random or one.has_effect or one.node is not None:
        return None
    if (one.changed or one.name.endswith("_")) and one.name != _COPY:
        return None
    needed = flow.readers[number] or number in flow.live or one.name == _COPY
    of_floats = all(operand.dtype in _FLOATS for operand in one.operands)
    if not needed or not (of_floats or _is_of_number(flow, number)):
        return None
    if sum(one.are_tensors) != len(one.operands) or not is_chosen(one.stack):
        return None
    arguments = _arguments(one)
    # What is written into has a gradient from the first write on.
    last = one.operands[-1].needs_grad if one.name == _COPY else None
    shapes = tuple(
        (operand.full, operand.dtype, operand.needs_grad if last is None else last)
        for operand in one.operands
    )
    return None if arguments is None else (one.overload, id(one.stack), shapes, arguments)


def _is_of_number(flow: Flow, number: int) -> bool:
    """Whether an operation writes a Python number into an item of a tensor."""
    one = flow.operations[number]
    if one.name != _COPY or len(one.operands) != 2 or one.operands[0].full != ():
        return False
    while number and (one := flow.operations[number := number - 1]).is_view:
        if one.name == _NUMBER:
            return True
    return one.name == _NUMBER


def _arguments(one: Operation) -> str | None:
    """Return the arguments as JSON; None if one of them is something else."""
    others = iter(one.numbers)
    try:
        if one.options:
            return None
        return json.dumps(["tensor" if tensor else next(others) for tensor in one.are_tensors])
    except (TypeError, StopIteration):
        return None


def _joined(flow: Flow, numbers: Sequence[int], breaks: Sequence[int]) -> Iterator[int]:
    """Yield how many of the calls may be one, for each call that is left.

    The depth of a call is the number of calls of its kind that it depends on, one by one.
    """
    if flow.operations[numbers[0]].name == _COPY:
        yield from _written(flow, numbers)
        return
    members = set(numbers)
    for begin, end in zip((0, *flow.ends), flow.ends, strict=False):
        if bisect.bisect_left(numbers, end) - bisect.bisect_left(numbers, begin) < _MANY:
            continue
        depths: dict[int, int] = {}
        joined = Counter[tuple[int, int]]()
        for number in range(begin, end):
            depth = max((depths.get(read, 0) for read in _read(flow, number)), default=0)
            if number in members:
                joined[depth, bisect.bisect_right(breaks, number)] += 1
                depth += 1
            if depth:
                depths[number] = depth
        yield from joined.values()


def _written(flow: Flow, numbers: Sequence[int]) -> Iterator[int]:
    """Yield how many writes into one tensor may be one: nothing reads it between them.

    They wait for no value that Python reads: what is written can be kept in a list.
    """
    members, run, before = set(numbers), 0, -1
    for number in numbers:
        others = flow.readers[before] - members if run else ()
        is_next = run > 0 and before in flow.operations[number].operands[0].writers
        if not is_next or any(reader < number for reader in others):
            yield run
            run = 0
        run, before = run + 1, number
    yield run


def _read(flow: Flow, number: int) -> Iterable[int]:
    """Return the operations whose results an operation reads, without what a copy overwrites."""
    one = flow.operations[number]
    return one.operands[1].writers if one.name == _COPY and len(one.operands) > 1 else one.reads


class _Costs:
    """What operators of a window took, the framework's part included: it is what a loop costs."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._of_node: dict[int, int] = defaultdict(int)
        self._copying: set[int] = set()  # nodes that copy the gradient of a whole tensor
        self._of_line: dict[tuple[SourceLocation, ...], int] = defaultdict(int)
        self._lines: dict[int, tuple[SourceLocation, ...]] = {}
        nodes: dict[tuple[SourceLocation, ...], set[int]] = defaultdict(set)
        for one in operations:
            if one.node is not None:
                self._of_node[one.node] += one.spent
                if one.name == _WHOLE:
                    self._copying.add(one.node)
        for one in operations:
            if one.node is None:
                line = self.line(one.stack)
                self._of_line[line] += one.spent
                nodes[line].update(self._nodes(one))
        for line, numbers in nodes.items():
            self._of_line[line] += sum(self._of_node[number] for number in numbers)
        self._whole = sum(one.spent for one in operations) or 1

    def of(self, numbers: Sequence[int]) -> int:
        """Return the nanoseconds of operations, with those of their nodes."""
        operations = [self._operations[number] for number in numbers]
        nodes = set[int]().union(*(self._nodes(one) for one in operations))
        return sum(one.spent for one in operations) + sum(self._of_node[node] for node in nodes)

    def _nodes(self, one: Operation) -> set[int]:
        """Return the autograd nodes of an operation. That of a write into a part comes after it."""
        after = one.sequence + 1
        is_part = one.name == _COPY and after in self._copying
        return {one.sequence, after} if is_part else {one.sequence}

    def line(self, stack: RawStack) -> tuple[SourceLocation, ...]:
        """Return the innermost line of the project, or nothing."""
        if id(stack) not in self._lines:
            frames = (frame for frame in shown(stack) if frame.own)
            places = (SourceLocation(file=one.file, line=one.line) for one in frames)
            self._lines[id(stack)] = tuple(place for place, _ in zip(places, "1", strict=False))
        return self._lines[id(stack)]

    def share(self, line: tuple[SourceLocation, ...]) -> float:
        """Return the share that a line has in the time of all operators, with their nodes."""
        return self._of_line[line] / self._whole


def _rewrite(flow: Flow, numbers: Sequence[int], sizes: Sequence[int], costs: _Costs) -> Rewrite:
    first, steps = flow.operations[numbers[0]], len(flow.ends) - 1
    is_of_number = _is_of_number(flow, numbers[0])
    line, many = costs.line(first.stack), min(_MOST, max(sizes))
    operands: list[tuple[Operand, ...]] = [flow.operations[number].operands for number in numbers]
    return Rewrite(
        kind="looped operator",
        form="numbers" if is_of_number else first.name.removeprefix("aten::"),
        shapes=tuple(one.full for one in first.operands),
        needs_grad=tuple(one.needs_grad for one in first.operands),
        dtypes=tuple(one.dtype for one in first.operands),
        device=first.operands[0].device,
        looped=LoopedOperator(
            name=first.overload,
            arguments=_arguments(first) or "[]",
            shared=tuple(
                len({one.identity for one in column}) <= steps  # a weight changes with each step
                for column in zip(*operands, strict=True)
            ),
            are_items=tuple(one.is_item for one in first.operands),
        ),
        in_loop=many,
        places=line,
        calls=sum(sizes) / many / steps,
        seconds=min(1.0, sum(sizes) / len(numbers)) * costs.of(numbers) * 1e-9 / steps,
    )
