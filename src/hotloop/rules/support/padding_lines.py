"""The lines of the project that pad rows to a given length."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import dotted, parse

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["padding_lines"]

_MADE = (
    "full",
    "zeros",
    "ones",
    "new_full",
    "new_zeros",
)  # constructors of a tensor that is then filled row by row
_LIMITS = re.compile(r"max_?(len|seq|tokens|length)|(seq|block|pad)_?(len|size|length)|maxlen")


def padding_lines(case: Case) -> list[SourceLocation]:
    """Return the first line that pads to a given length.

    Lines of the class whose rows feed training come first: a project may have several data sets.
    """
    code = parse(case.sources)
    reads = [loader.getitem for loader in case.training_loaders if loader.getitem is not None]
    of_rows = [
        (module, node)
        for module, node in code.nodes()
        if isinstance(node, ast.ClassDef)
        if any(place.file == module.path and _holds(node, place.line or 0) for place in reads)
    ]
    places = [module.place(node) for module, node in code.nodes() if _pads(node)]
    inside = [
        place
        for place in places
        if any(place.file == m.path and _holds(node, place.line or 0) for m, node in of_rows)
    ]
    return (inside or places)[:1]


def _holds(node: ast.ClassDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _pads(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # [0] * (limit - len(ids))
        return any(map(_missing, (node.left, node.right)))
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func).rpartition(".")[2]
    if name == "pad":  # F.pad(ids, (0, limit - len(ids)))
        return any(_missing(part) for argument in node.args for part in ast.walk(argument))
    if name in _MADE:  # torch.full((len(rows), max_length), pad)
        first = node.args[0] if node.args else None
        sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else node.args
        return len(sizes) > 1 and bool(_LIMITS.search(ast.unparse(sizes[1]).lower()))
    return any(
        word.arg == "padding"
        and isinstance(word.value, ast.Constant)
        and word.value.value == "max_length"
        for word in node.keywords
    )


def _missing(node: ast.AST) -> bool:
    """Whether a node is a limit minus a length: limit - len(ids)."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return False
    right = ast.unparse(node.right)
    return right.startswith("len(") or ".size(" in right or ".shape[" in right
