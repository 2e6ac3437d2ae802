"""How many optimizer steps the script means to make, read off the loops it stands in.

`for epoch in range(cfg.epochs)` is known by its expression and the names in its frame; how many
steps an epoch has is counted when the loop's variable has moved on, or is the length of the inner
loop, or 1 where there is none. Only names, attributes, numbers, arithmetic, `range` and `len` are
evaluated: nothing of the script's is called but a `__len__`, and so this is only for scripts that
may be stopped early. Of others the steps are known in the end.
"""

from __future__ import annotations

import ast
import functools
import linecache
import operator
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.probe.frames import is_own, names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from hotloop.core.case import Case

__all__ = ["Planned", "evaluated", "in_loop"]

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
_TRAINER = "/transformers/trainer.py"
_MOST = 10_000_000  # numbers above this are no count of steps


class Unknown(Exception):  # noqa: N818 - no fault: the answer is that it cannot be told
    """The expression needs more than is looked at."""


class Planned:
    """A watcher of the host: looks at the loops around the update some times a second."""

    def __init__(self) -> None:
        self._told: int | None = None  # by a framework's own loop, whose length it has worked out
        self._epochs: int | None = None
        self._inner: float | None = None  # updates of one turn of the outermost loop, by lengths
        self._turns: list[tuple[int | str, int]] = []  # (which turn of it, updates at first sight)
        self._numbered = False  # turns are numbers in order, so that those between two looks count
        self._loop: tuple[str, int] | None = None  # file and line of the outermost
        self._before = 0  # updates that were made before it: in another one, or in it the last time

    def stepped(self, done: int) -> None:
        """Read the loops that enclose the line now running, the outermost first."""
        self._told = self._told or _told(sys._getframe(1))
        loops = _enclosing(sys._getframe(1))
        if not loops:
            return
        (frame, outer), *inner = loops
        turn, self._numbered = _turn(outer, frame)
        loop = frame.f_code.co_filename, outer.lineno
        if loop != self._loop or self._begins_again(turn):
            self._loop, self._turns, self._before = loop, [], done - 1
        if turn is not None and (not self._turns or self._turns[-1][0] != turn):
            self._turns.append((turn, done))
        self._epochs = _length(outer, frame)
        lengths = [_length(loop, at) for at, loop in inner]
        known = [length for length in lengths if length]
        self._inner = functools.reduce(operator.mul, known, 1) if all(lengths) else None

    def add_to(self, case: Case) -> Case:
        """Add the planned steps, where they are known."""
        if case.planned_steps is None and self._told is not None:
            return replace(case, planned_steps=max(self._told, case.steps.count))
        if case.planned_steps is not None or not self._epochs or not case.steps.count:
            return case
        made = sum(optimizer.steps for optimizer in case.optimizers)  # those still known
        updates = max(1.0, made / case.steps.count)
        if (turns := self._passed()) > 0:
            each = (self._turns[-1][1] - self._turns[0][1]) / turns / updates
        elif self._inner is not None:
            each = self._inner / max(1.0, case.steps.backwards or 1.0)
        else:
            return case
        first = self._turns[0][0] if self._numbered and self._turns else 0
        missed = first * each if isinstance(first, int) else 0.0
        planned = round(max(0.0, self._before / updates - missed) + self._epochs * each)
        return replace(case, planned_steps=max(planned, case.steps.count))

    def _begins_again(self, turn: int | str | None) -> bool:
        """Whether the same loop runs anew: its turns are numbers, and this one was before."""
        last = self._turns[-1][0] if self._turns else None
        return self._numbered and isinstance(turn, int) and isinstance(last, int) and turn < last

    def _passed(self) -> int:
        """Return how many turns lie between the first that was seen and the last; 0: unknown."""
        if len(self._turns) < 2:
            return 0
        first, last = self._turns[0][0], self._turns[-1][0]
        if self._numbered and isinstance(first, int) and isinstance(last, int):
            return abs(last - first)
        # A look may miss turns as short as a step, not epochs.
        return 0 if self._inner == 1 else len(self._turns) - 1


def in_loop() -> bool:
    """Whether a loop of the project's own code is running, here or in a caller."""
    return bool(_enclosing(sys._getframe(1)))


def _told(frame: FrameType | None) -> int | None:
    """Return the steps that transformers' Trainer means to make, where it is running."""
    while frame is not None:
        if frame.f_code.co_filename.replace(os.sep, "/").endswith(_TRAINER):
            state = getattr(names(frame).get("self"), "__dict__", {}).get("state")
            steps = getattr(state, "__dict__", {}).get("max_steps")
            if isinstance(steps, int) and 0 < steps <= _MOST:
                return steps
        frame = frame.f_back
    return None


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


def _turn(loop: ast.For | ast.While, frame: FrameType) -> tuple[int | str | None, bool]:
    """Return which turn of a loop runs, by its variable, and whether that is its number."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return None, False
    values = names(frame)
    value = values.get(loop.target.id)
    if type(value) not in (int, str):  # a batch, say: neither kept nor compared
        return None, False
    try:
        whole = evaluated(_through(loop.iter), values)
    except (Unknown, TypeError, ValueError, ZeroDivisionError, NotImplementedError):
        return value, False
    numbered = isinstance(whole, range) and value in whole
    return (whole.index(value) if numbered else value), numbered


def _length(loop: ast.For | ast.While, frame: FrameType) -> int | None:
    """Return how often a loop goes round; None where that cannot be told."""
    values = names(frame)
    try:
        if isinstance(loop, ast.While):
            return _bound(loop.test, values)
        length = min(len(evaluated(_through(loop.iter), values)), _broken_off(loop, values))
    except (Unknown, TypeError, ValueError, ZeroDivisionError, NotImplementedError):
        return None
    return length if 0 < length <= _MOST else None


def _broken_off(loop: ast.For, values: Mapping[str, Any]) -> int:
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
                    bound = evaluated(test.comparators[0], values)
                    return bound if isinstance(bound, int) and bound > 0 else _MOST
    return _MOST


def _bound(test: ast.expr, values: Mapping[str, Any]) -> int | None:
    """Return the number in `while step < max_steps`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt | ast.LtE):
        return None
    bound = evaluated(test.comparators[0], values)
    return bound if isinstance(bound, int) and 0 < bound <= _MOST else None


def _through(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and node.args:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in _THROUGH:
            break
        node = node.args[0]
    return node


def evaluated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of a simple expression; raises Unknown for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise Unknown(node.id)
        return values[node.id]
    if isinstance(node, ast.Attribute):
        holder = evaluated(node.value, values)
        if node.attr not in getattr(holder, "__dict__", {}):  # a property would run code
            raise Unknown(node.attr)
        return holder.__dict__[node.attr]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        one, other = evaluated(node.left, values), evaluated(node.right, values)
        if isinstance(one, int | float) and isinstance(other, int | float):
            return _OPERATIONS[type(node.op)](one, other)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        holder = evaluated(node.value, values)
        if type(holder) is dict and node.slice.value in holder:
            return holder[node.slice.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        arguments = [evaluated(each, values) for each in node.args]
        if node.func.id == "range" and all(isinstance(each, int) for each in arguments):
            return range(*arguments)
        if node.func.id == "len" and len(arguments) == 1:
            return len(arguments[0])
        if (
            node.func.id == "int"
            and len(arguments) == 1
            and type(arguments[0]) in (int, float, str)
        ):
            return int(arguments[0])
    raise Unknown(ast.dump(node)[:40])
