"""When a part of the training loop comes that runs once in so many turns, such as an evaluation.

The loops around the update are read for `if step % 500 == 0:`. How fast the counter grows says when
the part comes that was not reached yet. No function of the script is called.
"""

from __future__ import annotations

import ast
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import is_own
from hotloop.observe.loops.expressions import calls_in, last_name
from hotloop.observe.loops.stack import LOOPS, SCOPES, levels
from hotloop.observe.loops.values import Unknown, value_of
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotloop.observe.loops.stack import Called

__all__ = ["ComingParts"]

_MOST = 10_000_000  # a counter beyond this is none


@dataclass(slots=True)
class _Part:
    """A part that runs where a counter is a multiple of a number."""

    first: int  # the counter when it was seen first, and when that was
    since: float
    every: int
    counter: int = 0
    reached: bool = False

    def seconds(self, now: float) -> float | None:
        """Return the seconds until it comes; None if that is unknown or it has come."""
        grown = self.counter - self.first
        if self.reached or grown <= 0:
            return None
        left = self.every - self.counter % self.every
        return left * (now - self.since) / grown


class ComingParts(Probe):
    """Follows the counters of the loops that run now."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}  # by the id() of the `if`
        self._kept: list[ast.If] = []  # so that no other node gets the id

    def after_step(self, updates: int) -> None:
        """Read the counters of the parts in the loops around the running line."""
        del updates
        try:
            stack, _ = levels(sys._getframe(1), has_library_length=True)
        except Unknown:
            return
        for level in stack:
            for part in _parts(level.at):
                self._see(part, level.names)

    def waits(self, now: float) -> float:
        """Return the seconds until the first part comes that was not reached; infinite if none."""
        waits = (part.seconds(now) for part in self._parts.values())
        return min((one for one in waits if one is not None), default=float("inf"))

    def _see(self, node: ast.If, names: Mapping[str, Any]) -> None:
        if (test := _modulo(node.test)) is None or not _works(node, names):
            return
        try:
            counter, every = (_number(one, names) for one in (test.left, test.right))
        except Unknown:
            return
        part = self._parts.get(id(node))
        if part is None or part.every != every or counter < part.counter:
            if every < 1 or part is not None:  # it starts again: an inner loop
                return
            self._kept.append(node)
            part = self._parts[id(node)] = _Part(counter, time.perf_counter(), every)
            part.reached = isinstance(node.test, ast.Compare) and counter % every == 0
        part.counter = counter
        part.reached = part.reached or counter // every > part.first // every


def _parts(called: Called) -> Iterator[ast.If]:
    """Yield the tests in the loops around a call that do not lead to it."""
    around = {id(node) for node in called.around}
    waiting: list[ast.AST] = [node for node in called.around if isinstance(node, LOOPS)]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ast.If) and id(node) not in around:
            yield node
        elif not isinstance(node, SCOPES):
            inner = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt))
            waiting += [one for one in inner if id(one) in around or not isinstance(one, LOOPS)]


def _modulo(test: ast.expr) -> ast.BinOp | None:
    return next(
        (
            node
            for node in ast.walk(test)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
        ),
        None,
    )


def _works(node: ast.If, names: Mapping[str, Any]) -> bool:
    """Whether a part does more than to print: it has a loop, saves, or calls the script's own."""
    for inner in (below for statement in node.body for below in ast.walk(statement)):
        if isinstance(inner, LOOPS):
            return True
    for call in (call for statement in node.body for call in calls_in(statement)):
        if last_name(call) == "save":
            return True
        try:
            function = value_of(call.func, names)
        except Unknown:
            continue
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None and is_own(code.co_filename):
            return True
    return False


def _number(node: ast.expr, names: Mapping[str, Any]) -> int:
    """Return the value of a counter, such as `step + 1`. Raises Unknown."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _number(node.left, names), _number(node.right, names)
        return left + right if isinstance(node.op, ast.Add) else left - right
    value = value_of(node, names)
    if type(value) is not int or abs(value) > _MOST:
        raise Unknown("no counter")
    return value


hide(globals())
