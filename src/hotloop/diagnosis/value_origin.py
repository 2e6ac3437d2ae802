"""Finds where the value of an argument is typed: in the code, or as an option of the command line.

A value is followed through variables, attributes of `self` and parameters of the project's own
functions, as long as each has one origin only.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.diagnosis.script_options import Option, OptionValue, typed_value
from hotloop.diagnosis.script_source import SourceEdit
from hotloop.rules.support.syntax import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.diagnosis.project_source import Project
    from hotloop.diagnosis.script_options import Options
    from hotloop.diagnosis.script_source import ScriptSource

__all__ = ["Change", "Origins", "Typed"]

Change = SourceEdit | OptionValue
_DEEP = 6  # steps from a call to the place where a value is typed
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Typed:
    """A constant in the code."""

    source: ScriptSource
    node: ast.expr


class Origins:
    """Follows values through a project."""

    def __init__(self, project: Project, options: Options, *, edit_defaults: bool = False) -> None:
        self.project, self.options = project, options
        self._edit_defaults = edit_defaults or options.ignores_command_line

    def of(self, source: ScriptSource, node: ast.AST, deep: int = _DEEP) -> Typed | Option | None:
        """Return where the value of an expression is typed; None if it is computed or unknown."""
        if isinstance(node, ast.Constant):
            return Typed(source, node)
        if not deep:
            return None
        if isinstance(node, ast.Name):
            return self._of_name(source, node, deep - 1)
        if isinstance(node, ast.Attribute):
            own = self._of_self(source, node, deep - 1)
            return own or self.options.get(node.attr)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.options.get(str(node.slice.value))
        return None

    def current(self, source: ScriptSource, node: ast.expr) -> str | None:
        """Return the value of an expression as Python text; None if it is unknown."""
        origin = self.of(source, node)
        if isinstance(origin, Option):
            return typed_value(origin, self.options.args)
        return None if origin is None else ast.unparse(origin.node)

    def setting(self, option: Option, value: str) -> list[Change] | str:
        """Return the changes that give an option a value, or why it cannot be given."""
        setting = OptionValue(option, value)
        if self._edit_defaults:
            return self._default(setting)
        why = self.options.why_fixed or setting.why_not(self.options.args)
        if why is not None:
            return f"set {option.name} to {value}: {why}"
        return [setting]

    def typed(self, setting: OptionValue, args: Sequence[str]) -> tuple[str, ...]:
        """Return the command line with a setting put into it."""
        return setting.put_into(args)

    def _default(self, setting: OptionValue) -> list[Change] | str:
        edits = self.options.default_edits(setting)
        option = setting.option
        is_typed = typed_value(option, self.options.args) != option.default
        if isinstance(edits, str) or not is_typed or self.options.ignores_command_line:
            return edits if isinstance(edits, str) else [*edits]
        return [*edits, setting]  # a default has no effect where the option is typed

    def arguments(
        self,
        source: ScriptSource,
        call: ast.Call,
        values: Mapping[str, str],
        *,
        own_lines: bool = False,
    ) -> list[Change] | str:
        """Return the changes that give keywords of a call these values, or why they cannot be.

        A keyword whose value comes from an option is set there, one that comes from a constant in
        that constant, and any other in the call.
        """
        changes, in_call = list[Change](), dict[str, str]()
        for name, value in values.items():
            node = keyword(call, name)
            origin = None if node is None else self.of(source, node)
            if node is not None and self.current(source, node) == value:
                continue
            if isinstance(origin, Option):
                made = self.setting(origin, value)
                if isinstance(made, str):
                    return made
                changes += made
            elif origin is not None and origin.node is not node:
                changes.append(origin.source.replacing(origin.node, origin.source.quoted(value)))
            else:
                in_call[name] = source.quoted(value)
        added = source.keywords(call, own_lines=own_lines, **in_call) if in_call else []
        return [*changes, *added]

    def _of_name(self, source: ScriptSource, node: ast.Name, deep: int) -> Typed | Option | None:
        for function in _around(source, node):
            if (parameter := _parameter(function, node.id)) is not None:
                return self._of_parameter(source, function, parameter, deep)
            assigned = list(_values(function.body, node.id))
            if assigned:
                return self.of(source, assigned[0], deep) if len(assigned) == 1 else None
        assigned = list(_values(source.tree.body, node.id))
        return self.of(source, assigned[0], deep) if len(assigned) == 1 else None

    def _of_self(
        self, source: ScriptSource, node: ast.Attribute, deep: int
    ) -> Typed | Option | None:
        """Follow `self.name` to its only assignment in the class."""
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return None
        classes = [c for c in source.module.nodes if isinstance(c, ast.ClassDef)]
        for owner in (c for c in classes if any(n is node for n in ast.walk(c))):
            values = [
                assigned.value
                for assigned in ast.walk(owner)
                if isinstance(assigned, ast.Assign)
                and any(ast.unparse(target) == f"self.{node.attr}" for target in assigned.targets)
            ]
            if len(values) == 1:
                return self.of(source, values[0], deep)
        return None

    def _of_parameter(
        self,
        source: ScriptSource,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        parameter: tuple[int, ast.expr | None],
        deep: int,
    ) -> Typed | Option | None:
        """Follow a parameter to what the function's calls pass; else to its default."""
        position, default = parameter
        name, skipped = function.name, 0
        for owner in (c for c in source.module.nodes if isinstance(c, ast.ClassDef)):
            if function in owner.body:
                name, skipped = (owner.name if name == "__init__" else name), 1
        word = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        found: dict[int, tuple[ScriptSource, ast.expr]] = {}
        for home, call in self.project.calls:
            called = home.module.name(call).rpartition(".")[2]
            if called != name:
                continue
            if any(k.arg is None for k in call.keywords):
                return None
            passed = keyword(call, word[position].arg)
            if passed is None and len(call.args) > position - skipped:
                passed = call.args[position - skipped]
            if passed is None and default is not None:
                home, passed = source, default
            if passed is None or isinstance(passed, ast.Starred):
                return None
            found[id(passed)] = home, passed
        origins = [self.of(home, passed, deep) for home, passed in found.values()]
        first = origins[0] if origins else None
        return first if all(origin == first for origin in origins) else None


def _around(
    source: ScriptSource, node: ast.AST
) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions that contain a node, the innermost first."""
    functions = (f for f in source.module.nodes if isinstance(f, _FUNCTIONS))
    holding = [f for f in functions if any(n is node for n in ast.walk(f))]
    return holding[::-1]  # walked breadth first: inner ones come later


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> tuple[int, ast.expr | None] | None:
    """Return the position and the default of a parameter, or None if there is no such one."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(plain) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults, *arguments.kw_defaults]
    for position, argument in enumerate([*plain, *arguments.kwonlyargs]):
        if argument.arg == name:
            return position, defaults[position]
    return None


def _values(body: Sequence[ast.stmt], name: str) -> Iterator[ast.AST]:
    """Yield what is assigned to a variable in a block, except in nested functions and classes.

    A statement `name += value` is yielded itself, for its value is computed.
    """
    pending: list[ast.AST] = [*body]
    while pending:
        node = pending.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets) and node.value:
                yield node if isinstance(node, ast.AugAssign) else node.value
        pending += ast.iter_child_nodes(node)
