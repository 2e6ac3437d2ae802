"""Skips single lines of a script on request: a line's value is kept, and handed out again.

The files that hold the lines are rewritten as they are loaded: `x = f(a)` becomes
`x = _.keep(0, f(a)) if _.live(0) else _.kept(0)`. Line numbers and tracebacks stay the same.
"""

from __future__ import annotations

import ast
import builtins
import io
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

from hotloop.observe.ledger.storages import content_of
from hotloop.observe.whatif.batch_replay import Slot, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.finding import SourceLocation

__all__ = ["Lines", "Mode"]

# stale: every call returns a value of an earlier step.
# again: the first call of a step computes, further ones return its value, if they had the same.
# constant: calls whose value was the same in each step return it, the others compute.
# last: all calls of a step but the last one return a value of an earlier step (one backward pass
#     from the last of several losses).
# no gradient: it is computed, and nothing is recorded for a backward pass.
# poison: as stale, with NaN in all floating-point tensors.
# poison gradient: it is computed, and the gradient that arrives at it is replaced by NaN.
Mode = Literal[
    "live", "stale", "again", "constant", "last", "no gradient", "poison", "poison gradient"
]

_NAME = "__hotloop_lines__"
_DEEP = 16  # callers that tell one call of a line from another
_KEPT = 64  # values of one line and step
_OPAQUE = (Iterator, io.IOBase)  # values that are used up by their reader
_STATEMENTS = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


# The functions above a call, innermost first, and the rows of the batch.
_Chain = tuple[tuple[CodeType, ...], int | None]
_Call = tuple[_Chain, int]  # and how many calls of the step came before


class Lines:
    """The lines of this process that can be skipped, by number."""

    def __init__(
        self, places: Sequence[SourceLocation], rows: Callable[[], int | None] = lambda: None
    ) -> None:
        """`rows` returns the number of rows of the latest batch: the last one may be smaller."""
        self._rows = rows
        self.modes: list[Mode] = ["live"] * len(places)
        self.calls = [0] * len(places)
        self._left_alone = set[int]()
        self._backward = set[int]()  # lines that make a backward pass
        self.problems: dict[int, str] = {}  # why a line cannot be skipped
        # By the chain of callers: calls in this step, and the largest index of one in any step.
        self._in_step: list[dict[_Chain, int]] = [defaultdict(int) for _ in places]
        self._most: list[dict[_Chain, int]] = [defaultdict(int) for _ in places]
        self._enabled: list[bool] = []  # gradients, before the lines without them that run now
        self._granted = [0] * len(places)  # calls that may still be poisoned
        # Of all values of a line: whether they are floating-point tensors and nothing else, and
        # whether one of their tensors had a gradient.
        self._are_floating: dict[int, bool] = {}
        self._have_gradients: dict[int, bool] = {}
        self._slots: list[dict[_Chain, dict[int, Slot]]] = [defaultdict(dict) for _ in places]
        # Of each call of a step: a hash of its value, and whether that was the same in all steps.
        self._contents: list[dict[_Call, tuple[int | None, bool]]] = [{} for _ in places]
        self._hashes = True  # in the first steps
        # Numbers by file and line: several changes of one line have a number each.
        self._by_file: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, place in enumerate(places):
            assert place.line is not None
            self._by_file[os.path.realpath(place.file)][place.line].append(number)
            self.problems[number] = "the file with the line was not loaded"

    def install(self) -> None:
        """Rewrite the files from now on, when they are loaded."""
        setattr(builtins, _NAME, self)
        get_code = SourceFileLoader.get_code

        def rewriting(loader: Any, fullname: str) -> CodeType | None:
            path = os.path.realpath(loader.path)
            if path not in self._by_file:
                return get_code(loader, fullname)
            return self.rewritten(loader.get_data(loader.path), loader.path)

        SourceFileLoader.get_code = rewriting  # type: ignore[assignment,method-assign]

    def rewritten(self, source: bytes, path: str) -> CodeType:
        """Return the code of a file in which its lines can be skipped."""
        tree = ast.parse(source, path)
        for line, numbers in self._by_file.get(os.path.realpath(path), {}).items():
            statement = _statement(tree, line)
            why, methods = _why_not(statement), set[str]()
            for number in numbers:
                self.problems.pop(number, None)
                if why is not None:
                    self.problems[number] = why
                    continue
                assert isinstance(statement, _STATEMENTS)
                assert statement.value is not None
                methods = methods or _methods(statement.value)
                if "backward" in methods:
                    self._backward.add(number)
                statement.value = _guarded(statement.value, number)
        return compile(tree, path, "exec", dont_inherit=True)

    def poison(self, number: int, mode: Mode, steps: int) -> None:
        """Poison a line for so many steps; without end of a step it is live again by itself."""
        self.modes[number] = mode
        calls = sum(most + 1 for most in self._most[number].values())
        self._granted[number] = 2 * steps * max(1, calls)

    def end_step(self) -> None:
        """Note the end of a training step."""
        if self._enabled:  # a line has raised
            sys.modules["torch"].set_grad_enabled(self._enabled[0])
            self._enabled.clear()
        for calls in self._in_step:
            calls.clear()

    def is_kept(self, number: int) -> bool:
        """Whether there is a value to hand out."""
        return any(self._slots[number].values())

    def is_floating(self, number: int) -> bool:
        """Whether NaN can stand in all of its values."""
        return self._are_floating.get(number, False)

    def has_gradient(self, number: int) -> bool:
        """Whether a gradient can arrive at its values."""
        return self._have_gradients.get(number, False)

    def has_loop(self, number: int) -> bool:
        """Whether the line has begun and not ended: the training loop runs below it."""
        return self.calls[number] > 0 and not self.is_kept(number)

    def end_of_hashing(self) -> None:
        """Compare no more values: what follows is timed."""
        self._hashes = False

    def mode_if_repeated(self, number: int) -> Mode:
        """Return how a line is skipped whose values were computed before."""
        if not any(self._most[number].values()):  # one call a step
            return "stale"
        if number in self._backward:
            return "last"
        if any(same for _, same in self._contents[number].values()):
            return "constant"
        repeats_itself = any(
            index and self._hash(number, chain, index) == self._hash(number, chain, 0)
            for chain, index in self._contents[number]
        )
        return "again" if repeats_itself else "stale"  # stale: it repeats another line

    def most_calls(self, number: int) -> int:
        """Return the most calls of the line that a step has made."""
        return max((most + 1 for most in self._most[number].values()), default=0)

    def leave_alone(self, number: int) -> None:
        """Watch a line no more: it runs as if it had not been rewritten."""
        self._left_alone.add(number)

    # Called by the rewritten lines.

    def live(self, number: int) -> bool:
        """Whether the line is to be computed."""
        if number in self._left_alone:
            return True
        chain = (_callers(), self._rows())
        index = self._in_step[number][chain]
        self._in_step[number][chain] += 1
        self.calls[number] += 1
        if self.modes[number] in ("poison", "poison gradient"):
            self._granted[number] -= 1
            if self._granted[number] < 0:  # the script leaves out what is not finite
                self.modes[number] = "live"
        mode = self.modes[number]
        if mode == "live":
            self._most[number][chain] = max(index, self._most[number][chain])
        if mode == "no gradient":
            torch: Any = sys.modules["torch"]
            self._enabled.append(torch.is_grad_enabled())
            torch.set_grad_enabled(False)
        if mode in ("live", "no gradient", "poison gradient"):
            return True
        if mode == "again":
            if index == 0:
                self._slots[number][chain].pop(0, None)  # of this step
            return index == 0 or self._hash(number, chain, index) != self._hash(number, chain, 0)
        if mode == "constant":
            _, same = self._contents[number].get((chain, index), (None, False))
            return not same or index not in self._slots[number][chain]
        if mode == "last":
            return index >= self._most[number][chain]
        return not self._slots[number][chain]

    def keep(self, number: int, value: Any) -> Any:
        """Keep a value of the line, and return it."""
        if number in self._left_alone:
            return value
        chain = (_callers(), self._rows())
        index, mode = self._in_step[number][chain] - 1, self.modes[number]
        if mode == "no gradient":
            sys.modules["torch"].set_grad_enabled(self._enabled.pop())
        if mode == "live":
            self._look_at(number, value)
            if self._hashes and index < _KEPT:
                self._compare(number, (chain, index), value)
        if mode == "poison gradient":
            rebuilt(value, _with_poisoned_gradient)
        if isinstance(value, _OPAQUE):
            self.problems[number] = "its value is used up by its reader"
        elif index < _KEPT and index not in self._slots[number][chain]:
            self._slots[number][chain][index] = Slot(value)
        return value

    def _look_at(self, number: int, value: Any) -> None:
        """Note what the value consists of."""
        parts = list(_parts(value))
        tensors = [part for part in parts if _is_tensor(part)]
        floating = bool(parts) and all(_is_tensor(p) and p.is_floating_point() for p in parts)
        self._are_floating[number] = self._are_floating.get(number, True) and floating
        gradient = any(tensor.requires_grad for tensor in tensors)
        self._have_gradients[number] = self._have_gradients.get(number, False) or gradient

    def _compare(self, number: int, call: _Call, value: Any) -> None:
        """Note whether a call has the value that it had in the step before."""
        tensors = [part for part in _parts(value) if _is_tensor(part)]
        hashes = [content_of(tensor) for tensor in tensors]
        known = bool(tensors) and None not in hashes
        layouts = [(tensor.shape, tensor.storage_offset()) for tensor in tensors] if known else []
        now = hash((*hashes, *layouts)) if known else None
        before = self._contents[number].get(call)
        self._contents[number][call] = now, known and before in (None, (now, True))

    def _hash(self, number: int, chain: _Chain, index: int) -> int | None:
        """Return the hash of a call's value, when that was last compared."""
        return self._contents[number].get((chain, index), (None, False))[0]

    def kept(self, number: int) -> Any:
        """Return a kept value of the line."""
        chain = (_callers(), self._rows())
        slots = self._slots[number][chain]
        if self.modes[number] == "again":
            return slots[0].hand_out()
        if self.modes[number] == "constant":
            return slots[self._in_step[number][chain] - 1].hand_out()
        value = slots[(self._in_step[number][chain] - 1) % len(slots)].hand_out()
        return rebuilt(value, _poisoned) if self.modes[number] == "poison" else value


def _callers() -> tuple[CodeType, ...]:
    """Return the functions above the line that calls a method of `Lines`.

    Values are handed out to calls of one chain only: another caller may need another shape.
    """
    chain: list[CodeType] = []
    frame = sys._getframe(2).f_back
    while frame is not None and len(chain) < _DEEP:
        chain.append(frame.f_code)
        frame = frame.f_back
    return tuple(chain)


def _parts(value: Any) -> Iterator[Any]:
    """Yield what lists, tuples and mappings consist of."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            yield from _parts(element)
    else:
        yield value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def _poisoned(tensor: Any) -> Any:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().clone().fill_(math.nan).requires_grad_(tensor.requires_grad)


def _with_poisoned_gradient(tensor: Any) -> Any:
    if tensor.requires_grad:
        tensor.register_hook(lambda gradient: gradient.new_full(gradient.shape, math.nan))
    return tensor


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """Return the innermost statement that covers a line."""
    covering = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return min(covering, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)


def _why_not(statement: ast.stmt | None) -> str | None:
    """Return why a statement cannot be skipped, or None."""
    if not isinstance(statement, _STATEMENTS) or statement.value is None:
        return "it is the head of a block"
    inside = list(ast.walk(statement.value))
    if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in inside):
        return "it hands control to its caller"
    if any(isinstance(node, ast.NamedExpr) for node in inside):
        return "it assigns within an expression"
    if _methods(statement.value) & {"step", "zero_grad"}:
        return "it updates the weights"
    return None


def _methods(value: ast.expr) -> set[str]:
    """Return the names of the methods that an expression calls."""
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    return {function.attr for function in calls if isinstance(function, ast.Attribute)}


def _guarded(value: ast.expr, number: int) -> ast.expr:
    """Return the expression that keeps or hands out the value of an expression."""
    lines = ast.Name(_NAME, ast.Load())

    def call(name: str, *arguments: ast.expr) -> ast.expr:
        function = ast.Attribute(lines, name, ast.Load())
        return ast.Call(function, [ast.Constant(number), *arguments], [])

    new = ast.IfExp(call("live"), call("keep", value), call("kept"))
    inside = set(map(id, ast.walk(value)))
    for node in ast.walk(new):
        if id(node) not in inside:
            ast.copy_location(node, value)
    return new
