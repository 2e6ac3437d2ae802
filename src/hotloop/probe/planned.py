"""How many optimizer steps the script means to make, read off the loops it stands in.

`for epoch in range(cfg.epochs)` is known by its expression and the names in its frame; how many
steps an epoch has is counted when the loop's variable has moved on, or is the length of the inner
loop. Only names, attributes, numbers, arithmetic, `range` and `len` are evaluated: nothing of the
script's is called.
"""

from __future__ import annotations

import ast
import functools
import linecache
import operator
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.probe.frames import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from hotloop.core.case import Case

__all__ = ["Planned", "evaluated"]

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_THROUGH = {"enumerate", "tqdm", "trange", "track", "iter", "reversed"}  # their first argument
_COUNTERS = ("step", "iter", "update", "epoch", "batch")  # in names of what counts turns
_MOST = 10_000_000  # numbers above this are no count of steps


class Unknown(Exception):  # noqa: N818 - no fault: the answer is that it cannot be told
    """The expression needs more than is looked at."""


class Planned:
    """A watcher of the host: looks at the loops around the update some times a second."""

    def __init__(self) -> None:
        self._epochs: int | None = None
        self._inner: float | None = None  # updates of one turn of the outermost loop, by lengths
        self._turns: list[tuple[Any, int]] = []  # (value of its variable, updates at first sight)

    def stepped(self, done: int) -> None:
        """Read the loops that enclose the line now running, the outermost first."""
        loops = _enclosing(sys._getframe(1))
        if not loops:
            return
        (frame, outer), *inner = loops
        self._epochs = _length(outer, frame)
        lengths = [_length(loop, at) for at, loop in inner]
        known = [length for length in lengths if length]
        self._inner = functools.reduce(operator.mul, known, 1) if all(lengths) else None
        target = outer.target if isinstance(outer, ast.For) else None
        name = target.id if isinstance(target, ast.Name) else None
        turn = frame.f_locals.get(name) if name else None
        if not self._turns or self._turns[-1][0] != turn:
            self._turns.append((turn, done))

    def add_to(self, case: Case) -> Case:
        """Add the planned steps, where they are known."""
        if case.planned_steps is not None or not self._epochs or not case.steps.count:
            return case
        updates = max(1, case.steps.optimizers)
        if len(self._turns) > 1:
            (_, first), (_, last) = self._turns[0], self._turns[-1]
            each = (last - first) / (len(self._turns) - 1) / updates
        elif self._inner is not None:
            each = self._inner / max(1.0, case.steps.backwards or 1.0)
        else:
            return case
        planned = round(self._epochs * each)
        return replace(case, planned_steps=max(planned, case.steps.count))


def _enclosing(frame: FrameType | None) -> list[tuple[FrameType, ast.For | ast.While]]:
    """Return the loops of the project's own code around the running line, outermost first."""
    found: list[tuple[FrameType, ast.For | ast.While]] = []
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            around = _loops(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_firstlineno)
            found += [(frame, loop) for loop in reversed(around)]
        frame = frame.f_back
    return found[::-1]


@functools.lru_cache(maxsize=512)
def _loops(file: str, line: int, first: int) -> tuple[ast.For | ast.While, ...]:
    """Return the loops around a line, in the function that begins at `first`, outermost first."""
    return tuple(
        node
        for node in _all_loops(file)
        if node.lineno <= line <= (node.end_lineno or 0) and node.lineno >= first
    )


@functools.lru_cache(maxsize=64)
def _all_loops(file: str) -> tuple[ast.For | ast.While, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    return tuple(sorted(loops, key=lambda node: node.lineno))


def _length(loop: ast.For | ast.While, frame: FrameType) -> int | None:
    """Return how often a loop goes round; None where that cannot be told."""
    names = {**frame.f_globals, **frame.f_locals}
    try:
        if isinstance(loop, ast.While):
            return _bound(loop.test, names)
        length = min(len(evaluated(_through(loop.iter), names)), _broken_off(loop, names))
    except (Unknown, TypeError, ValueError, ZeroDivisionError, NotImplementedError):
        return None
    return length if 0 < length <= _MOST else None


def _broken_off(loop: ast.For, names: Mapping[str, Any]) -> int:
    """Return the number in `if step == max_steps: break`, or more than any loop has.

    A break for another reason (early stopping) is none that the author counts on.
    """
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Break):
            test = node.test
            counts = (ast.Eq, ast.GtE, ast.Gt)
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], counts):
                counter = "".join(
                    part.id for part in ast.walk(test.left) if isinstance(part, ast.Name)
                )
                if any(word in counter.lower() for word in _COUNTERS):
                    bound = evaluated(test.comparators[0], names)
                    return bound if isinstance(bound, int) and bound > 0 else _MOST
    return _MOST


def _bound(test: ast.expr, names: Mapping[str, Any]) -> int | None:
    """Return the number in `while step < max_steps`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt | ast.LtE):
        return None
    bound = evaluated(test.comparators[0], names)
    return bound if isinstance(bound, int) and 0 < bound <= _MOST else None


def _through(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and node.args:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in _THROUGH:
            break
        node = node.args[0]
    return node


def evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a simple expression; raises Unknown for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise Unknown(node.id)
        return names[node.id]
    if isinstance(node, ast.Attribute):
        holder = evaluated(node.value, names)
        if node.attr not in getattr(holder, "__dict__", {}):  # a property would run code
            raise Unknown(node.attr)
        return holder.__dict__[node.attr]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        one, other = evaluated(node.left, names), evaluated(node.right, names)
        if isinstance(one, int | float) and isinstance(other, int | float):
            return _OPERATIONS[type(node.op)](one, other)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        holder = evaluated(node.value, names)
        if type(holder) is dict and node.slice.value in holder:
            return holder[node.slice.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        arguments = [evaluated(each, names) for each in node.args]
        if node.func.id == "range" and all(isinstance(each, int) for each in arguments):
            return range(*arguments)
        if node.func.id == "len" and len(arguments) == 1:
            return len(arguments[0])
        if node.func.id == "int" and len(arguments) == 1:
            return int(arguments[0])
    raise Unknown(ast.dump(node)[:40])
