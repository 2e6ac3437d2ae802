"""Recognise idioms of training scripts in their syntax: evaluations, saves, guarded steps.

Names decide, as a reader would: `validate(model)` evaluates, `build_val_loader()` does not.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import Function, TrainingLoop, calls, dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hotloop.core.finding import SourceLocation
    from hotloop.rules.support.syntax import ProjectCode

__all__ = [
    "ancestors",
    "assigned",
    "compiling",
    "counted",
    "evaluations",
    "following",
    "guards",
    "is_every_n",
    "last_name",
    "line",
    "modulus",
    "names",
    "optimizer_steps",
    "own",
    "saves",
    "unnested",
]

_EVALUATE = {"eval", "evaluate", "evaluation", "valid", "validate", "validation", "val", "test"}
_BUILD = {"loader", "dataloader", "dataset", "data", "split", "set", "transform", "batch", "path"}
_SCHEDULE = re.compile(r"sched|warmup|plateau|profil")
_SAVED = {"checkpoint", "ckpt", "model", "state", "pretrained", "weights", "best", "file"}


def names(node: ast.AST) -> set[str]:
    """Return the names that are read or written below a node."""
    return {below.id for below in ast.walk(node) if isinstance(below, ast.Name)}


def last_name(node: ast.AST) -> str:
    """Return "step" for optimizer.step, for a call of it and for a plain step; else ""."""
    return dotted(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


def line(node: ast.AST) -> int:
    """Return the line of a statement or expression."""
    return int(getattr(node, "lineno", 0))


def assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that plain or augmented assignments below bind."""
    assigned_names: set[str] = set()
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Assign):
                assigned_names |= set().union(*map(names, node.targets))
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                assigned_names |= names(node.target)
    return assigned_names


@functools.lru_cache(maxsize=512)
def ancestors(tree: ast.AST) -> Mapping[ast.AST, ast.AST]:
    """Return the parent of each node."""
    return {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}


def following(tree: ast.AST, node: ast.stmt) -> Sequence[ast.stmt]:
    """Return the statements after `node` in its own block."""
    for above in ast.walk(tree):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(above, block, None)
            if isinstance(statements, list) and node in statements:
                return statements[statements.index(node) + 1 :]
    return ()


def unnested(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes below that run once: not inside a loop, function or class."""
    queue = list(nodes)
    while queue:
        node = queue.pop(0)
        yield node
        if not isinstance(node, ast.For | ast.While | Function | ast.ClassDef | ast.Lambda):
            queue = [*ast.iter_child_nodes(node), *queue]


def evaluations(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    """Return the calls among `nodes` that evaluate, by their names."""
    return [node for node in nodes if isinstance(node, ast.Call) and _evaluates(node)]


def _evaluates(call: ast.Call) -> bool:
    name = last_name(call)
    if isinstance(call.func, ast.Name) and name == "eval":
        return False  # Python's own
    words = set(re.findall(r"[a-z]+", name.lower()))
    return name == "estimate_loss" or bool(words & _EVALUATE and not words & _BUILD)


def saves(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    """Return the calls among `nodes` that write a checkpoint, by their names."""
    return [node for node in nodes if isinstance(node, ast.Call) and _saves(node)]


def _saves(call: ast.Call) -> bool:
    name = dotted(call.func)
    if name in {"torch.save", "accelerator.save", "fabric.save"}:
        return True
    head, *words = name.rpartition(".")[2].lower().split("_")
    return head == "save" and bool(_SAVED & set(words))


def guards(nodes: Iterable[ast.AST], above: Mapping[ast.AST, ast.AST]) -> list[ast.If]:
    """Return the "every N" tests around optimizer steps among `nodes`."""
    tests: dict[ast.If, None] = {}
    for step in optimizer_steps(nodes):
        node = above.get(step)
        while node is not None and not isinstance(node, ast.For | ast.While | Function):
            if isinstance(node, ast.If) and counted(node.test):
                tests[node] = None
            node = above.get(node)
    return list(tests)


def compiling(code: ProjectCode) -> list[SourceLocation]:
    """Return where torch.compile is called or used as a decorator."""
    return [
        module.place(node)
        for module, node in code.nodes()
        if (isinstance(node, ast.Call) and module.name(node) == "torch.compile")
        or any(
            not isinstance(mark, ast.Call) and module.name(mark) == "torch.compile"
            for mark in getattr(node, "decorator_list", ())
        )
    ]


def counted(test: ast.AST) -> set[str]:
    """Return the names whose remainder an "every N" test takes: {"step"} for step % 10."""
    counted_names: set[str] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            counted_names |= names(node.left)
    return counted_names


def modulus(test: ast.AST) -> str:
    """Return the N of an "every N" test, as source text."""
    remainders = (
        n for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)
    )
    return ast.unparse(next(remainders).right)


def optimizer_steps(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    """Return the calls of an optimizer's or a scaler's step among `nodes`."""
    steps = (call for call in calls(iter(nodes), "step") if isinstance(call.func, ast.Attribute))
    return [call for call in steps if not _SCHEDULE.search(dotted(call.func).lower())]


def is_every_n(node: ast.AST) -> bool:
    """Whether a node is an "every N" test: if step % n == 0."""
    return isinstance(node, ast.If) and bool(counted(node.test))


def own(loop: TrainingLoop) -> list[ast.AST]:
    """Return the nodes of the loop itself, without functions that it calls."""
    return [node for part in loop.node.body for node in ast.walk(part)]
