"""The script's functions on the stack at an update, and the call that each of them makes."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import os
from dataclasses import dataclass
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.stack_frames import is_hotloop, is_own, names
from hotloop.observe.loops.values import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

__all__ = ["LOOPS", "SCOPES", "Called", "Level", "levels"]

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_TORCH = f"{os.sep}torch{os.sep}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call in one of the script's functions."""

    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
    is_method: bool
    call: ast.Call
    around: tuple[ast.AST, ...]  # outermost first, from the function's own statement on

    @property
    def name(self) -> str:
        """Return the function's name; "" for a module."""
        return getattr(self.function, "name", "")

    @property
    def statement(self) -> ast.stmt:
        """Return the outermost loop around the call, or the innermost statement."""
        statements = [node for node in self.around if isinstance(node, ast.stmt)]
        return next((node for node in statements if isinstance(node, LOOPS)), statements[-1])

    @property
    def is_in_a_loop(self) -> bool:
        """Whether the call is inside a loop of the function."""
        return isinstance(self.statement, LOOPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One of the script's functions on the stack."""

    file: str
    at: Called
    names: Mapping[str, Any]

    @property
    def tree(self) -> ast.Module:
        """Return the syntax tree of the file."""
        return _tree(self.file)

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module:
        """Return the function's syntax tree."""
        return self.at.function


def levels(innermost: FrameType, *, has_library_length: bool = False) -> tuple[list[Level], bool]:
    """Return the script's functions on the stack, outermost first.

    The bool says whether only PyTorch's frames lie between the innermost of them and the update.
    Raises Unknown if a library's own loop is on the stack, unless `has_library_length` says that
    its length is known.
    """
    stack: list[Level] = []
    between: list[FrameType] = []
    plain = True
    for frame, _ in walk_stack(innermost):
        file = frame.f_code.co_filename
        if is_own(file):
            if not has_library_length and any(map(_goes_round, between)):
                raise Unknown("the loop is a library's")
            plain = plain and (bool(stack) or all(map(_is_torch, between)))
            code, instruction = frame.f_code, frame.f_lasti // 2
            if code.co_flags & _GENERATORS:
                raise Unknown("a generator")
            following = itertools.islice(code.co_positions(), instruction, None)
            _, line, _, column = next(following, (None,) * 4)
            called = _called(_tree(file), code.co_name, code.co_firstlineno, line, column)
            stack.insert(0, Level(file=file, at=called, names=names(frame)))
            between = []
            if code.co_name == "<module>":  # a script or an imported module: it runs once
                break
        elif not is_hotloop(file):
            between.append(frame)
    if not stack:
        raise Unknown("nothing of the script's is on the stack")
    return stack, plain


def _is_torch(frame: FrameType) -> bool:
    return _TORCH in frame.f_code.co_filename


def _goes_round(frame: FrameType) -> bool:
    """Whether a library's frame is inside a loop; PyTorch's loops do not count: they run hooks."""
    if _is_torch(frame):
        return False
    first, line = frame.f_code.co_firstlineno, frame.f_lineno
    return any(
        first <= node.lineno <= line <= (node.end_lineno or 0)
        for node in _loops(_tree(frame.f_code.co_filename))
    )


@functools.lru_cache(maxsize=64)
def _loops(tree: ast.Module) -> tuple[ast.stmt, ...]:
    return tuple(node for node in ast.walk(tree) if isinstance(node, LOOPS))


def _tree(file: str) -> ast.Module:
    return _parsed("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        raise Unknown("the source is not readable") from None


@functools.lru_cache(maxsize=256)
def _called(
    tree: ast.Module, name: str, first: int, line: int | None, column: int | None
) -> Called:
    """Return the call that ends at (line, column), in the function that begins at line `first`."""
    function: Any = tree
    is_method = False
    if name != "<module>":
        matches = [
            (node, isinstance(parent, ast.ClassDef))
            for parent in ast.walk(tree)
            for node in ast.iter_child_nodes(parent)
            if isinstance(node, _FUNCTIONS) and node.name == name and _first_line(node) == first
        ]
        if len(matches) != 1:
            raise Unknown("a comprehension, a lambda or code made by code")
        ((function, is_method),) = matches
    ways = list(_ways(function, line, column))
    if len(ways) != 1 or any(isinstance(node, SCOPES) for node in ways[0]):
        raise Unknown("no plain call")
    *around, call = ways[0]
    if not any(isinstance(node, ast.stmt) for node in around):
        raise Unknown("no statement")
    return Called(function=function, is_method=is_method, call=call, around=tuple(around))


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min(node.lineno for node in (function, *function.decorator_list))


def _ways(root: ast.AST, line: int | None, column: int | None) -> Any:
    """Yield, for each call that ends at (line, column), the nodes from below `root` down to it."""
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(root, ())]
    while waiting:
        node, above = waiting.pop()
        for below in ast.iter_child_nodes(node):
            way = (*above, below)
            end = (getattr(below, "end_lineno", None), getattr(below, "end_col_offset", None))
            if isinstance(below, ast.Call) and end == (line, column):
                yield way
            waiting.append((below, way))
