"""Which lines of the project were certainly executed, by the stacks that were sampled.

A line was executed if a stack stood there; or if it stands under no condition in its function, and
the function was seen at a later line or was called by a line that was executed. A module's own
lines run when it is imported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.support.idioms import ancestors, last_name
from hotloop.rules.support.syntax import Function, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.case.case import Case
    from hotloop.rules.support.syntax import Module

__all__ = ["was_executed", "was_seen"]

_DEPTH = 5  # calls that are followed upwards
# Nodes whose parts, but for the named ones, may be skipped.
_CERTAIN: Mapping[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("test",),
    ast.IfExp: ("test",),
    ast.While: ("test",),
    ast.For: ("iter",),
    ast.AsyncFor: ("iter",),
    ast.Try: ("body", "finalbody"),
    ast.TryStar: ("body", "finalbody"),
    ast.BoolOp: (),
    ast.Lambda: (),
    ast.Match: ("subject",),
    ast.ListComp: (),
    ast.SetComp: (),
    ast.DictComp: (),
    ast.GeneratorExp: (),
}
_NEVER_EMPTY = ("parameters", "named_parameters", "modules", "named_modules", "children")


def was_executed(case: Case, module: Module, node: ast.AST) -> bool:
    """Whether a node of a module was certainly executed."""
    return was_seen(case, module, node) or _Search(case).ended(module, node, _DEPTH)


def was_seen(case: Case, module: Module, node: ast.AST) -> bool:
    """Whether a sampled stack stood at a line of a node."""
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None) or 0
    return any(first <= line <= last for line in _lines(case, module))


class _Search:
    """Follows calls upwards; what was found for a node is kept, as many functions share a name."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._lines: dict[str, set[int]] = {}  # by file
        self._known: dict[tuple[ast.AST, int], bool] = {}

    def lines(self, module: Module) -> set[int]:
        """Return the lines of a file at which a sampled stack stood."""
        if module.path not in self._lines:
            self._lines[module.path] = _lines(self.case, module)
        return self._lines[module.path]

    def ended(self, module: Module, node: ast.AST, depth: int) -> bool:
        """Whether a node, and what it calls, was executed to its end."""
        key = node, depth
        if key not in self._known:
            self._known[key] = False  # a function that calls itself
            self._known[key] = _ended(self, module, node, depth)
        return self._known[key]


def _ended(search: _Search, module: Module, node: ast.AST, depth: int) -> bool:
    case = search.case
    above = ancestors(module.tree)
    scope = node
    while scope in above:
        inner, scope = scope, above[scope]
        if isinstance(scope, Function) and inner in scope.body:
            owner = above.get(scope)
            name = owner.name if isinstance(owner, ast.ClassDef) else scope.name
            called = name if scope.name == "__init__" else scope.name
            return _passed(search, module, scope, node, called=called, depth=depth)
        if not _always(module, case, scope, inner):
            return False
    # The script's own lines run in their order; a module's have run when its import is over.
    if not _is_script(case, module) or (case.stopped is None and case.raised is None):
        return True
    functions = [n for n in module.nodes if isinstance(n, Function)]
    return any(
        line > getattr(node, "end_lineno", 0)
        and not any(f.lineno <= line <= (f.end_lineno or 0) for f in functions)
        for line in search.lines(module)
    )


def _always(module: Module, case: Case, node: ast.AST, part: ast.AST) -> bool:
    """Whether `part` runs whenever `node` does."""
    certain = _CERTAIN.get(type(node))
    if certain is None:
        return True
    if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
        return _is_script(case, module) and part in node.body
    if isinstance(node, ast.For) and last_name(node.iter) in _NEVER_EMPTY:
        return True
    if isinstance(node, ast.For | ast.While) and part in node.body:
        return any(node is loop.node for loop in parse(case.sources).loops) and was_seen(
            case, module, node
        )
    if isinstance(node, ast.BoolOp):
        return part is node.values[0]
    values = [getattr(node, name) for name in certain]
    return any(part is value or (isinstance(value, list) and part in value) for value in values)


def _passed(
    search: _Search, module: Module, function: Function, node: ast.AST, *, called: str, depth: int
) -> bool:
    """Whether a function was seen behind a node that runs in each of its calls, or called.

    `called` is the name by which it is called: of a constructor, that of its class.
    """
    end = getattr(node, "end_lineno", 0)
    if any(end < line <= (function.end_lineno or 0) for line in search.lines(module)):
        return True
    leaves = any(
        isinstance(n, ast.Return | ast.Raise | ast.Yield) and n.lineno < getattr(node, "lineno", 0)
        for n in ast.walk(function)
    )
    return (
        depth > 0
        and not leaves
        and any(
            search.ended(caller, call, depth - 1)
            for caller, call in parse(search.case.sources).calls(called)
        )
    )


def _is_script(case: Case, module: Module) -> bool:
    return module is parse(case.sources).modules[0]  # the first one is


def _lines(case: Case, module: Module) -> set[int]:
    """Return the lines of a file at which a sampled stack stood."""
    return {
        frame.line for stack in case.stacks for frame in stack.frames if frame.file == module.path
    }
