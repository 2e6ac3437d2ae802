"""Where the project's code sends things to the GPU: models, and tensors made on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.support.costs import Site, site
from hotloop.rules.support.idioms import last_name
from hotloop.rules.support.syntax import dotted, parse, running

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.objects import Model
    from hotloop.core.finding import SourceLocation
    from hotloop.rules.support.syntax import Module

__all__ = ["tensors_sent", "where_converted"]

_MAKERS = frozenset(
    {"tensor", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tril", "triu"}
    | {"rand", "randn", "randint", "randperm", "from_numpy", "as_tensor"}
)
_MOVES = frozenset({"cuda", "to", "double"})


def where_converted(case: Case, model: Model) -> list[SourceLocation]:
    """Return where a model is moved or converted; else where it is built, or its class.

    What has `.parameters()` is a model.
    """
    code = parse(case.sources)
    models = {dotted(call.func).rpartition(".")[0] for _, call in code.calls("parameters")}
    moves = _MOVES if case.on_gpu else _MOVES - {"cuda"}
    moved = [
        module.place(statement)
        for module in code.modules
        for statement in module.nodes
        if isinstance(statement, ast.Assign | ast.Expr) and _moves(statement, models - {""}, moves)
    ]
    built = [module.place(call) for module, call in code.calls(model.name)]
    return moved or built or ([model.place] if model.place else [])


def _moves(statement: ast.Assign | ast.Expr, models: set[str], moves: frozenset[str]) -> bool:
    value = statement.value
    if not isinstance(value, ast.Call) or last_name(value) not in moves:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return bool(models & {dotted(value.func).rpartition(".")[0], *map(dotted, targets)})


def tensors_sent(case: Case) -> list[Site]:
    """Return the lines in the loops that make a tensor on the host and send it to the GPU."""
    code = running(parse(case.sources), classes=case.classes)
    return [site(module, node) for module, node in code if _is_sent(module, node)]


def _is_sent(module: Module, node: ast.AST) -> bool:
    """Whether a node is like torch.zeros(...).to(...), .cuda(), or torch.ones(...).tril().to()."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in ("to", "cuda"):
        return False
    made = node.func.value
    while isinstance(made, ast.Call) and not _makes(module, made):
        if not isinstance(made.func, ast.Attribute):
            return False
        made = made.func.value
    return isinstance(made, ast.Call) and "device" not in {word.arg for word in made.keywords}


def _makes(module: Module, call: ast.Call) -> bool:
    name = module.name(call)
    return name.startswith("torch.") and name[6:] in _MAKERS
