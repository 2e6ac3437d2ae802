"""Whether a script may make updates at other places than those that were observed."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.observe.loops.expressions import below_all
from hotloop.observe.loops.values import Unknown, value_of
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from hotloop.observe.loops.stack import Called, Level

__all__ = ["may_train_elsewhere", "updating"]

Key = tuple[str, int]  # a function: file and line, 0 for the module


def updating(level: Level, *, is_repeated: bool) -> list[ast.Call]:
    """Return the calls in a function that update, or start a library's training, or may do so.

    Without `is_repeated`, calls before the statement that is running are left out: they are over.
    """
    first = level.at.statement.lineno
    return [
        call
        for call in calls_in_body(level.function.body)
        if (is_repeated or call.lineno >= first) and _updates(call, level.names)
    ]


def calls_in_body(statements: Sequence[ast.stmt]) -> list[ast.Call]:
    """Return the calls in statements, without those in functions defined among them."""
    return [node for node in below_all(statements) if isinstance(node, ast.Call)]


def _updates(call: ast.Call, names: Mapping[str, Any]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("step", "train", "fit"):
        return False
    try:
        kind = _kind(call.func.value, names)
    except Unknown:
        return call.func.attr != "train"  # most often model.train()
    homes = tuple(base.__module__ for base in kind.__mro__)
    torch = sys.modules.get("torch")
    if call.func.attr == "step" and torch is not None:
        schedules = issubclass(kind, torch.optim.lr_scheduler.LRScheduler)
        return not schedules and any(
            home.startswith(("torch.optim", "torch.amp")) for home in homes
        )
    return any(home.startswith("transformers.trainer") for home in homes)


def _kind(node: ast.expr, names: Mapping[str, Any]) -> type:
    """Return the class of an expression's value; that of `Trainer(...)` is Trainer."""
    if isinstance(node, ast.Call):
        function = value_of(node.func, names)
        if not isinstance(function, type):
            raise Unknown("what a function returns")
        return function
    return type(value_of(node, names))


def may_train_elsewhere(
    sources: Mapping[str, str], files: Sequence[str], calls: Sequence[Sequence[Called]]
) -> bool:
    """Whether functions that were not observed may update, or the observed ones may run again.

    `files` and `calls` are those of the functions on the stack, outermost first.
    """
    functions = {function.key: function for function in _functions(sources)}
    stack = [_key(file, callees[0]) for file, callees in zip(files, calls, strict=True)]
    if not all(key in functions for key in stack):
        return True
    on_stack = {functions[key].called for key in stack if key[1]}
    others = [entry for key, entry in functions.items() if key not in stack and key[1]]
    backward = _reaching(others, on_stack | {("backward", True), ("manual_backward", True)})
    step = _reaching(others, on_stack | {("step", True), ("fit", True)})
    repeated = False
    for key, callees in zip(stack, calls, strict=True):
        places = {_place(called.call.func) for called in callees}
        first = 0 if repeated else min(called.statement.lineno for called in callees)
        for node in functions[key].nodes:
            called = functions[key].names(node)
            trains = called in on_stack | (backward & step) and _place(node) not in places
            if trains and node.lineno >= first:
                return True
        repeated = repeated or any(called.is_in_a_loop for called in callees)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A function of the project, or the top-level statements of a module."""

    key: Key
    called: tuple[str, bool]  # its name, and whether it is a method
    nodes: list[ast.expr]  # names and attributes in it
    modules: Container[str]  # names that refer to modules, or were imported from one

    def names(self, node: ast.expr) -> tuple[str, bool]:
        """Return what a name or an attribute may call: its name, and whether it is a method."""
        if isinstance(node, ast.Attribute):
            plain = isinstance(node.value, ast.Name) and node.value.id in self.modules
            return node.attr, not plain
        return getattr(node, "id", ""), False


def _place(node: ast.expr) -> tuple[int, int, int | None]:
    return node.lineno, node.col_offset, node.end_col_offset


def _key(file: str, called: Called) -> Key:
    return os.path.abspath(file), getattr(called.function, "lineno", 0)


def _functions(sources: Mapping[str, str]) -> Iterator[_Function]:
    for module in parse(sources).modules:
        for parent in ast.walk(module.tree):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield _Function(
                        key=(module.path, node.lineno),
                        called=(node.name, isinstance(parent, ast.ClassDef)),
                        nodes=_own(node.body),
                        modules=module.aliases,
                    )
        own = _own(module.tree.body)
        yield _Function(key=(module.path, 0), called=("", False), nodes=own, modules=module.aliases)


def _own(statements: Sequence[ast.stmt]) -> list[ast.expr]:
    return [node for node in below_all(statements) if isinstance(node, ast.Attribute | ast.Name)]


def _reaching(
    functions: Sequence[_Function], names: set[tuple[str, bool]]
) -> set[tuple[str, bool]]:
    """Return the functions that call one of `names`, directly or through each other."""
    callers: set[tuple[str, bool]] = set()
    while True:
        more = {
            function.called
            for function in functions
            if function.called not in callers
            and any(function.names(node) in names | callers for node in function.nodes)
        }
        if not more:
            return callers
        callers |= more
