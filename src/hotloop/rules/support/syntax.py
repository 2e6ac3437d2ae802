"""The project's code as rules read it: parsed once, with calls and loops found by name.

Only the syntax is read: nothing is imported or run. A name is the source text ("optimizer.step"),
with import aliases resolved to their origin ("torch.nn.functional.cross_entropy").
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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
    nodes: tuple[ast.AST, ...]  # all of the tree, as ast.walk yields them

    def place(self, node: ast.AST) -> SourceLocation:
        """Return the source location of a node."""
        return SourceLocation(file=self.path, line=getattr(node, "lineno", None))

    def name(self, node: ast.AST) -> str:
        """Return the dotted name of a call's function or of an expression; "" if it has none."""
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        head, dot, attributes = name.partition(".")
        return self.aliases.get(head, head) + dot + attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoop:
    """A loop with a backward pass, directly or in a function that it calls."""

    module: Module
    node: ast.For | ast.While
    functions: tuple[
        Function, ...
    ]  # functions of the project that it calls, directly or through others
    inner: bool  # it contains no other training loop: it is the loop over batches

    def nodes(self) -> Iterator[ast.AST]:
        """Yield all nodes that run in the loop, including the project's functions."""
        for part in (*self.node.body, *self.functions):
            yield from ast.walk(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCode:
    """All files of the project that could be parsed, the script first."""

    modules: tuple[Module, ...]
    functions: Mapping[str, tuple[tuple[Module, Function], ...]]  # bare name -> definitions
    loops: tuple[TrainingLoop, ...]  # training loops, outer ones before inner ones
    called: Mapping[str, Sequence[tuple[Module, ast.Call]]]  # by the last part of the name

    @property
    def inner_loops(self) -> tuple[TrainingLoop, ...]:
        """The loops over batches."""
        return tuple(loop for loop in self.loops if loop.inner)

    def nodes(self) -> Iterator[tuple[Module, ast.AST]]:
        """Yield all nodes of all files, each with its file."""
        return ((module, node) for module in self.modules for node in module.nodes)

    def calls(self, *names: str) -> Iterator[tuple[Module, ast.Call]]:
        """Yield the calls whose last name is one of `names`, each with its file."""
        if len(names) == 1:
            yield from self.called.get(names[0], ())
            return
        for module, node in self.nodes():
            if isinstance(node, ast.Call) and _last_name(node) in names:
                yield module, node

    def module_of(self, node: ast.AST) -> Module:
        """Return the file that contains a node; raise StopIteration if none does."""
        return next(m for m in self.modules if any(node is n for n in m.nodes))


def dotted(node: ast.AST) -> str:
    """Return "a.b.c" for such an expression, else ""; a call inside counts as its name."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            names.append("()")
            node = node.func
        elif isinstance(node, ast.Name):
            names.append(node.id)
            return ".".join(reversed(names)).replace(".()", "()")
        else:
            return ".".join(reversed([*names, ""])).replace(".()", "()") if names else ""


def calls(nodes: ast.AST | Iterator[ast.AST], *names: str) -> Iterator[ast.Call]:
    """Return the calls below whose last name is one of `names`: "backward" is "loss.backward"."""
    walked = ast.walk(nodes) if isinstance(nodes, ast.AST) else nodes
    for node in walked:
        if isinstance(node, ast.Call) and _last_name(node) in names:
            yield node


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument of a call, or None."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def is_constant(node: ast.expr | None, value: bool) -> bool:
    """Whether a node is the constant `value`, True or False."""
    return isinstance(node, ast.Constant) and node.value is value


def evaluating(code: ProjectCode) -> Iterator[tuple[Module, ast.AST]]:
    """Yield the `with` blocks and functions that run without autograd, with their files."""
    for module, node in code.nodes():
        if isinstance(node, ast.With):
            marks = [item.context_expr for item in node.items]
        elif isinstance(node, Function):
            marks = node.decorator_list
        else:
            continue
        if any(module.name(mark).endswith(("no_grad", "inference_mode")) for mark in marks):
            yield module, node


def running(
    code: ProjectCode, *, classes: Collection[str] = (), evaluation: bool = True
) -> Iterator[tuple[Module, ast.AST]]:
    """Yield each node that runs in a loop over training batches or in evaluation, once.

    A module's `forward`, which torch calls, runs wherever there is such a loop, if its class is one
    of `classes`, those of the models; without any, they are unknown.
    """
    home = {
        id(node): module for definitions in code.functions.values() for module, node in definitions
    }
    roots: list[tuple[Module, ast.AST]] = [
        (loop.module, root) for loop in code.inner_loops for root in loop.node.body
    ]
    reached = [function for loop in code.inner_loops for function in loop.functions]
    for module, node in evaluating(code) if evaluation else ():
        roots.append((module, node))
        reached += _reached([node], code.functions)
    forwards = list(_forwards(code, classes)) if roots else []
    reached += [*forwards, *_reached(forwards, code.functions)]
    roots += [(home[id(function)], function) for function in reached]
    seen: set[int] = set()
    for module, root in roots:
        for node in ast.walk(root):
            if id(node) not in seen:
                seen.add(id(node))
                yield module, node


def _forwards(code: ProjectCode, classes: Collection[str]) -> Iterator[Function]:
    for module in code.modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and (not classes or node.name in classes):
                yield from (
                    part
                    for part in node.body
                    if isinstance(part, Function) and part.name == "forward"
                )


def variables(function: Function) -> set[str]:
    """Return the names of a function's local variables, including its arguments."""
    arguments = function.args
    names = {
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    }
    names |= {extra.arg for extra in (arguments.vararg, arguments.kwarg) if extra is not None}
    shared: set[str] = set()
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, Function | ast.ClassDef):
            queue.extend(ast.iter_child_nodes(node))
    return names - shared


def parse(sources: Mapping[str, str]) -> ProjectCode:
    """Parse the project; files that are not valid Python are left out."""
    return _parse(tuple(sources.items()))


@functools.lru_cache(maxsize=8)
def _parse(sources: Sequence[tuple[str, str]]) -> ProjectCode:
    modules = []
    for path, text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        nodes = tuple(ast.walk(tree))
        modules.append(
            Module(
                path=path,
                text=text,
                tree=tree,
                aliases=_aliases(nodes),
                nodes=nodes,
            )
        )
    functions: dict[str, tuple[tuple[Module, Function], ...]] = {}
    called: dict[str, list[tuple[Module, ast.Call]]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, Function):
                functions[node.name] = (*functions.get(node.name, ()), (module, node))
            elif isinstance(node, ast.Call):
                called[_last_name(node)].append((module, node))
    return ProjectCode(
        modules=tuple(modules),
        functions=functions,
        loops=_loops(modules, functions),
        called=dict(called),
    )


def _last_name(call: ast.Call) -> str:
    return dotted(call.func).rpartition(".")[2]


def _aliases(nodes: Sequence[ast.AST]) -> dict[str, str]:
    aliases = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            aliases.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            aliases.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return aliases


_BACKWARD = frozenset({"backward", "manual_backward", "grad"})
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
    """Return the project's functions that `body` calls by name, directly or indirectly."""
    reached: dict[int, Function] = {}
    queue = list(body)
    while queue:
        for name, plain in _called(queue.pop()):
            for _, function in functions.get(name, ()) if plain or name not in _OFTEN else ():
                if id(function) not in reached:
                    reached[id(function)] = function
                    queue.append(function)
    return tuple(reached.values())


@functools.lru_cache(maxsize=1 << 16)
def _called(node: ast.AST) -> tuple[tuple[str, bool], ...]:
    """Return the names that a node calls, each once, and whether they have no part before a dot."""
    called = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    return tuple(dict.fromkeys((_last_name(one), isinstance(one.func, ast.Name)) for one in called))


@functools.lru_cache(maxsize=1 << 16)
def _loops_below(node: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(one for one in ast.walk(node) if isinstance(one, ast.For | ast.While))


def _loops(
    modules: Sequence[Module], functions: Mapping[str, tuple[tuple[Module, Function], ...]]
) -> tuple[TrainingLoop, ...]:
    training_loops = []
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.For | ast.While):
                reached = _reached(node.body, functions)
                if any(_trains(part) for part in (*node.body, *reached)):
                    training_loops.append((module, node, reached))
    training = {id(node) for _, node, _ in training_loops}
    return tuple(
        TrainingLoop(
            module=module,
            node=node,
            functions=reached,
            inner=not any(
                id(below) in training and below is not node
                for part in (*node.body, *reached)
                for below in _loops_below(part)
            ),
        )
        for module, node, reached in training_loops
    )


def _trains(node: ast.AST) -> bool:
    return not _BACKWARD.isdisjoint(name for name, _ in _called(node))
