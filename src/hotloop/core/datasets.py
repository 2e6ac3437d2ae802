"""Finds where the code of a project's data set stands."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.core.syntax import parse

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Place
    from hotloop.core.syntax import Function, Module

__all__ = ["method", "returned"]


def method(case: Case, kind: str, name: str) -> tuple[Module, Function] | None:
    """Return the method `name` of the project's class `kind`, with its file; None: not there."""
    for module in parse(case.sources).modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name == kind.rpartition(".")[2]:
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == name:
                        return module, part
    return None


def returned(case: Case, kind: str, name: str) -> Place | None:
    """Return the line of the method's last return, or of the method where it has none."""
    found = method(case, kind, name)
    if found is None:
        return None
    module, function = found
    last = [node for node in ast.walk(function) if isinstance(node, ast.Return)][-1:]
    return module.place(last[0] if last else function)
