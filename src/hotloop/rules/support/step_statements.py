"""Find the statements of a training step in a script's tree."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["of_a_step"]

_ELSEWHERE = (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def of_a_step(tree: ast.AST) -> list[ast.stmt]:
    """Return the simple statements of the innermost loop with a backward pass.

    Statements in nested loops or without gradients are left out. Return [] if several innermost
    loops have a backward pass.
    """
    loops = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.While) and any(calls(node, "backward"))
    ]
    inner = [loop for loop in loops if not any(o in loops for o in _descendants(loop))]
    return list(_simple(inner[0])) if len(inner) == 1 else []


def _descendants(node: ast.AST) -> Iterator[ast.AST]:
    return (descendant for descendant in ast.walk(node) if descendant is not node)


def _simple(loop: ast.For | ast.While) -> Iterator[ast.stmt]:
    queue: list[ast.AST] = [*loop.body]
    while queue:
        node = queue.pop(0)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
            yield node
        elif not isinstance(node, _ELSEWHERE) and not _without_gradients(node):
            queue += ast.iter_child_nodes(node)


def _without_gradients(node: ast.AST) -> bool:
    items = node.items if isinstance(node, ast.With) else []
    names = {n.attr for item in items for n in ast.walk(item) if isinstance(n, ast.Attribute)}
    return bool(names & {"no_grad", "inference_mode"})
