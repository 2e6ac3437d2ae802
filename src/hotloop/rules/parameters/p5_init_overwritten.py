"""Careful initial values are overwritten by a later `apply(init)`.

Looks at: the constructors of the project's modules: which weights get values of their own, and
    which `apply(function)` runs after that, in the same class or in one that builds it.
Says so when: zeros, a constant, an identity or an orthogonal matrix are set and the function that
    is applied later draws the same weights of that kind of layer at random. A note.
Stays silent when: it is applied before, sets other layers or other parameters, draws nothing, or
    asks for a mark on the module.
Remedy: apply first, then set the special values.
Numbers: the run changes: it starts from the values that were meant.
Seen: examples/planted/adapted.py.
Source: hotloop, from the five projects (zero-initialised output layers, so that each block starts
    as the identity, drawn at random two lines later).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import Function, Module, ProjectCode, dotted, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["RULE"]

CAREFUL = {"zeros_", "ones_", "constant_", "eye_", "dirac_", "orthogonal_", "zero_", "fill_"}
DRAWN = {"normal_", "trunc_normal_", "uniform_", "xavier_uniform_", "xavier_normal_"}
DRAWN |= {"kaiming_uniform_", "kaiming_normal_"}
MARKS = {"hasattr", "getattr"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An assignment of an initial value: nn.init.zeros_(self.out.weight)."""

    owner: str  # the class that contains it
    layer: str  # "out"
    parameter: str  # "weight"
    how: str  # "zeros_"
    place: SourceLocation
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A call of `apply` with a function of the project."""

    builds: frozenset[str]  # classes of the module it is applied to, and of its submodules
    sets: Mapping[tuple[str, str], str]  # (kind of layer, parameter) -> how
    owner: str | None  # the class whose constructor contains it; None: the script does
    place: SourceLocation
    line: int


def judge(case: Case) -> Finding | None:
    """Look for a value that a later `apply` overwrites."""
    code = parse(case.sources)
    if not any(".apply(" in module.text for module in code.modules):
        return None
    classes = {
        node.name: (module, node) for module, node in code.nodes() if isinstance(node, ast.ClassDef)
    }
    kinds = _kinds(code)
    values = [v for name, (module, node) in classes.items() for v in _values(module, name, node)]
    for applied in _applied(code, classes):
        for value in values:
            later = value.owner != applied.owner or value.line < applied.line
            if value.owner not in applied.builds or not later:
                continue
            hows = {applied.sets.get((k, value.parameter), "") for k in kinds.get(value.layer, ())}
            if hows and hows <= DRAWN:
                return _finding(value, applied, sorted(hows))
    return None


def _finding(value: Value, applied: Applied, hows: list[str]) -> Finding:
    return Finding(
        claim=(
            f"{value.layer}.{value.parameter} of {value.owner} is set by {value.how}, then "
            f"overwritten by {' or '.join(hows)} (apply in line {applied.line})"
        ),
        severity="warn",
        places=[value.place, applied.place],
        remedies=[code_edit("apply first, then set the special values")],
    )


def _kinds(code: ProjectCode) -> dict[str, set[str]]:
    """Return the layer classes that attributes hold, by attribute name: {"out": {"Linear"}}."""
    kinds: dict[str, set[str]] = {}
    for _, node in code.nodes():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    kinds.setdefault(target.attr, set()).add(idioms.last_name(node.value))
    return kinds


def _values(module: Module, owner: str, node: ast.ClassDef) -> Iterator[Value]:
    """Yield the weights that the constructor of a class initialises explicitly."""
    for function in node.body:
        if not isinstance(function, Function) or function.name != "__init__":
            continue
        for call in ast.walk(function):
            how = idioms.last_name(call) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and how in CAREFUL:
                *_, layer, parameter = ["", "", *_subject(call).split(".")]
                if parameter in {"weight", "bias"} and layer:
                    yield Value(
                        owner=owner,
                        layer=layer,
                        parameter=parameter,
                        how=how,
                        place=module.place(call),
                        line=call.lineno,
                    )


def _subject(call: ast.Call) -> str:
    """Return "self.out.weight" of zeros_(self.out.weight) and of self.out.weight.data.zero_()."""
    head = dotted(call.func).rpartition(".")[0]
    is_method = head.endswith((".weight", ".bias", ".data"))
    subject = head if is_method else dotted(call.args[0]) if call.args else ""
    return subject.removesuffix(".data")


def _applied(
    code: ProjectCode, classes: Mapping[str, tuple[Module, ast.ClassDef]]
) -> Iterator[Applied]:
    for module in (module for module in code.modules if ".apply(" in module.text):
        above = idioms.ancestors(module.tree)
        for call in module.nodes:
            if not (isinstance(call, ast.Call) and idioms.last_name(call) == "apply"):
                continue
            if len(call.args) != 1 or not isinstance(call.func, ast.Attribute):
                continue
            name = dotted(call.args[0]).rpartition(".")[2]
            functions = code.functions.get(name, ())
            if len(functions) != 1:
                continue
            subject = dotted(call.func.value)
            owner = _class_above(call, above) if subject == "self" else None
            built = {owner} if owner else _built_as(module, call.func.value)
            yield Applied(
                builds=frozenset(_with_parts(built, classes)),
                sets=_sets(functions[0][1]),
                owner=owner,
                place=module.place(call),
                line=call.lineno,
            )


def _class_above(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> str | None:
    while node in above:
        node = above[node]
        if isinstance(node, ast.ClassDef):
            return node.name
    return None


def _built_as(module: Module, node: ast.expr) -> set[str]:
    """Return the classes whose instance a name of the script holds: model = Net()."""
    name = ast.unparse(node)
    classes = {idioms.last_name(node)} if isinstance(node, ast.Call) else set()
    for statement in module.nodes:
        if isinstance(statement, ast.Assign) and name in map(ast.unparse, statement.targets):
            classes.add(idioms.last_name(statement.value))
    return classes


def _with_parts(names: set[str], classes: Mapping[str, tuple[Module, ast.ClassDef]]) -> set[str]:
    """Return these classes of the project and all classes that they build, transitively."""
    built: set[str] = set()
    left = [name for name in names if name in classes]
    while left:
        name = left.pop()
        if name not in built:
            built.add(name)
            node = classes[name][1]
            left += [idioms.last_name(c) for c in ast.walk(node) if isinstance(c, ast.Call)]
            left = [child for child in left if child in classes]
    return built


def _sets(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[tuple[str, str], str]:
    """Return how an init function sets each kind of layer; {} if it checks a marker attribute."""
    text = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    if text & MARKS:
        return {}
    methods: dict[tuple[str, str], str] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.If):
            continue
        kinds = {
            last
            for call in ast.walk(node.test)
            if isinstance(call, ast.Call) and idioms.last_name(call) == "isinstance"
            for part in ast.walk(call.args[-1])
            if (last := dotted(part).rpartition(".")[2])
        }
        for call in (c for part in node.body for c in ast.walk(part)):
            how = idioms.last_name(call) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and how in DRAWN | CAREFUL:
                parameter = _subject(call).rpartition(".")[2]
                methods |= {(kind, parameter): how for kind in kinds}
    return methods


RULE = Rule(
    title="Initial values overwritten",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    numerics="training",
    kind="correctness",
    known="read",
)
