"""The project's code as rules read it: parsed once, calls and loops found by name.

Only syntax: nothing is imported or run. A name is what stands in the source ("optimizer.step"),
aliases of imports resolved to their origin ("torch.nn.functional.cross_entropy").
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "Module",
    "ProjectCode",
    "TrainingLoop",
    "calls",
    "dotted",
    "evaluating",
    "is_constant",
    "keyword",
    "parse",
    "running",
    "variables",
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the project."""

    path: str
    text: str
    tree: ast.Module
    aliases: Mapping[str, str]  # local name -> dotted origin

    def place(self, node: ast.AST) -> SourceLocation:
        """Return where a node stands."""
        return SourceLocation(file=self.path, line=getattr(node, "lineno", None))

    def name(self, node: ast.AST) -> str:
        """Return the dotted name of a call's function or of an expression; "" when it has none."""
        found = dotted(node.func if isinstance(node, ast.Call) else node)
        head, dot, rest = found.partition(".")
        return self.aliases.get(head, head) + dot + rest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoop:
    """A loop that trains: a backward pass is made in it, directly or in a function it calls."""

    module: Module
    node: ast.For | ast.While
    functions: tuple[Function, ...]  # of the project, called from it, directly or through others
    inner: bool  # no training loop stands inside it: the loop over batches

    def nodes(self) -> Iterator[ast.AST]:
        """Return all that runs in the loop, the project's own functions included."""
        for part in (*self.node.body, *self.functions):
            yield from ast.walk(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCode:
    """All files of the project that could be parsed, the script first."""

    modules: tuple[Module, ...]
    functions: Mapping[str, tuple[tuple[Module, Function], ...]]  # bare name -> definitions
    loops: tuple[TrainingLoop, ...]  # training loops, outer ones before inner ones

    @property
    def inner_loops(self) -> tuple[TrainingLoop, ...]:
        """Return the loops over batches."""
        return tuple(loop for loop in self.loops if loop.inner)

    def module_of(self, node: ast.AST) -> Module:
        """Return the file a node is from; StopIteration when it is from none."""
        return next(m for m in self.modules if any(node is n for n in ast.walk(m.tree)))


def dotted(node: ast.AST) -> str:
    """Return "a.b.c" for such an expression, "" for any other; a call inside counts as its name."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            parts.append("()")
            node = node.func
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return ".".join(reversed(parts)).replace(".()", "()")
        else:
            return ".".join(reversed([*parts, ""])).replace(".()", "()") if parts else ""


def calls(nodes: ast.AST | Iterator[ast.AST], *names: str) -> Iterator[ast.Call]:
    """Return the calls below whose last name is one of `names`: "backward" is "loss.backward"."""
    walked = ast.walk(nodes) if isinstance(nodes, ast.AST) else nodes
    for node in walked:
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in names:
            yield node


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call is given by a keyword; None where it is not."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def is_constant(node: ast.expr | None, value: bool) -> bool:
    """Whether True or False, as `value` says, stands there."""
    return isinstance(node, ast.Constant) and node.value is value


def evaluating(code: ProjectCode) -> Iterator[tuple[Module, ast.AST]]:
    """Return the `with` blocks and the functions that run without autograd, with their files."""
    for module in code.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.With):
                marks = [item.context_expr for item in node.items]
            elif isinstance(node, Function):
                marks = node.decorator_list
            else:
                continue
            if any(module.name(mark).endswith(("no_grad", "inference_mode")) for mark in marks):
                yield module, node


def running(code: ProjectCode, *, evaluation: bool = True) -> Iterator[tuple[Module, ast.AST]]:
    """Return each node that runs in a loop over training batches or in evaluation, once."""
    home = {id(node): module for found in code.functions.values() for module, node in found}
    parts: list[tuple[Module, ast.AST]] = [
        (loop.module, part) for loop in code.inner_loops for part in loop.node.body
    ]
    reached = [function for loop in code.inner_loops for function in loop.functions]
    for module, node in evaluating(code) if evaluation else ():
        parts.append((module, node))
        reached += _reached([node], code.functions)
    parts += [(home[id(function)], function) for function in reached]
    seen: set[int] = set()
    for module, part in parts:
        for node in ast.walk(part):
            if id(node) not in seen:
                seen.add(id(node))
                yield module, node


def variables(function: Function) -> set[str]:
    """Return the names of a function's own variables, its arguments among them."""
    given = function.args
    found = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    found |= {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    shared: set[str] = set()
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, Function | ast.ClassDef):
            left.extend(ast.iter_child_nodes(node))
    return found - shared


def parse(sources: Mapping[str, str]) -> ProjectCode:
    """Return the parsed project; files that are no Python are left out."""
    return _parse(tuple(sources.items()))


@functools.lru_cache(maxsize=8)
def _parse(sources: Sequence[tuple[str, str]]) -> ProjectCode:
    modules = []
    for path, text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        modules.append(Module(path=path, text=text, tree=tree, aliases=_aliases(tree)))
    functions: dict[str, tuple[tuple[Module, Function], ...]] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                functions[node.name] = (*functions.get(node.name, ()), (module, node))
    return ProjectCode(
        modules=tuple(modules), functions=functions, loops=_loops(modules, functions)
    )


def _aliases(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return found


_OFTEN = {
    "forward",
    "__call__",
    "__init__",
    "step",
    "backward",
    "append",
    "update",
    "train",
    "eval",
}


def _reached(
    body: Sequence[ast.AST], functions: Mapping[str, tuple[tuple[Module, Function], ...]]
) -> tuple[Function, ...]:
    """Return the project's functions that are called by name from `body`, and from each other."""
    found: dict[int, Function] = {}
    left = list(body)
    while left:
        for node in ast.walk(left.pop()):
            if not isinstance(node, ast.Call):
                continue
            name = dotted(node.func).rpartition(".")[2]
            plain = isinstance(node.func, ast.Name)
            for _, function in functions.get(name, ()) if plain or name not in _OFTEN else ():
                if id(function) not in found:
                    found[id(function)] = function
                    left.append(function)
    return tuple(found.values())


def _loops(
    modules: Sequence[Module], functions: Mapping[str, tuple[tuple[Module, Function], ...]]
) -> tuple[TrainingLoop, ...]:
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.For | ast.While):
                reached = _reached(node.body, functions)
                if any(_trains(part) for part in (*node.body, *reached)):
                    found.append((module, node, reached))
    training = {id(node) for _, node, _ in found}
    return tuple(
        TrainingLoop(
            module=module,
            node=node,
            functions=reached,
            inner=not any(
                id(below) in training and below is not node
                for part in (*node.body, *reached)
                for below in ast.walk(part)
            ),
        )
        for module, node, reached in found
    )


def _trains(node: ast.AST) -> bool:
    return next(calls(node, "backward", "manual_backward", "grad"), None) is not None
