"""Find the code of a project's data sets."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import dotted, parse

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation
    from hotloop.rules.support.syntax import Function, Module

__all__ = ["method", "returned", "windows"]


def method(case: Case, kind: str, name: str) -> tuple[Module, Function] | None:
    """Return the method `name` of the project's class `kind`, with its file; None: not found."""
    for module, node in parse(case.sources).nodes():
        if isinstance(node, ast.ClassDef) and node.name == kind.rpartition(".")[2]:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == name:
                    return module, part
    return None


def returned(case: Case, kind: str, name: str) -> SourceLocation | None:
    """Return the line of the method's last return, else of the method itself."""
    definition = method(case, kind, name)
    if definition is None:
        return None
    module, function = definition
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    return module.place(max(returns, key=lambda node: node.lineno, default=function))


def windows(case: Case) -> list[SourceLocation]:
    """Return the lines that cut windows one position apart: x[i : i + n] for i in range(...)."""
    places = []
    for module, node in parse(case.sources).nodes():
        if isinstance(node, ast.Call) and dotted(node.func).endswith("unfold"):
            steps = [ast.unparse(argument) for argument in node.args[2:3]]
            places += [module.place(node)] if steps == ["1"] else []
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            first = node.generators[0]
            if _by_one(first.iter) and _cuts(node.elt, ast.unparse(first.target)):
                places.append(module.place(node))
        elif isinstance(node, ast.For) and _by_one(node.iter):
            name = ast.unparse(node.target)
            cut = [part for part in node.body if _cuts(part, name)]
            places += [module.place(part) for part in cut[:1]]
    return places


def _by_one(node: ast.AST) -> bool:
    """Whether a node is range(...) without a step."""
    return isinstance(node, ast.Call) and dotted(node.func) == "range" and len(node.args) < 3


def _cuts(node: ast.AST, name: str) -> bool:
    """Whether a node contains a slice from `name` to `name` plus a size."""
    return any(
        isinstance(part, ast.Slice)
        and part.lower is not None
        and part.upper is not None
        and ast.unparse(part.lower) == name
        and isinstance(part.upper, ast.BinOp)
        and ast.unparse(part.upper.left) == name
        for part in ast.walk(node)
    )
