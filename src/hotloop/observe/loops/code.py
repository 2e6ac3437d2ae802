"""Reduces the code around an update to the statements that decide how often it is reached.

Of each of the script's functions on the stack it keeps loops over objects of known length, tests
and counters of plain numbers, break, continue and return. It raises Unknown for anything else that
may decide.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.observe.loops.expressions import Terms, below, calls_in, last_name, mangled, stored
from hotloop.observe.loops.stack import LOOPS, SCOPES
from hotloop.observe.loops.values import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.observe.loops.stack import Called, Level

__all__ = ["Skeleton", "skeleton"]

_ROUNDS = 20  # until no more names matter
_ENDS = {"exit", "quit", "_exit", "abort"}  # calls that end the script
_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """Code that calls update(n) as often as the script would, and tick() in each iteration."""

    code: Any  # compiled
    names: tuple[tuple[int, str], ...]  # variables that change: level and name
    constants: tuple[tuple[int, ast.expr, Any], ...]  # must not change: level, expression, value


def skeleton(stack: Sequence[Level], calls: Sequence[Sequence[Called]]) -> Skeleton:
    """Return the reduced code of these functions, outermost first.

    `calls` are the calls in each function that reach the next one, in the last one the updates.
    """
    functions: list[_Function] = []
    for depth, level in enumerate(stack):
        outer = functions[-1] if functions else None
        functions.append(_Function(depth, level, calls[depth], outer))
    definitions = [function.definition(is_last=function is functions[-1]) for function in functions]
    names = [(function.depth, name) for function in functions for name in sorted(function.wanted)]
    for definition in definitions if names else ():
        definition.body.insert(0, ast.Global([mangled(*name) for name in names]))
    tree = ast.fix_missing_locations(ast.Module([*definitions, _call("f0")], []))
    return Skeleton(
        code=compile(tree, "<loops>", "exec"),
        names=tuple(names),
        constants=tuple(value for function in functions for value in function.constants.values()),
    )


def _call(name: str, *arguments: ast.expr) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(arguments), []))


class _Function(Terms):
    """One of the functions, and its reduction."""

    def definition(self, *, is_last: bool) -> ast.FunctionDef:
        """Return the reduced function."""
        self._is_last = is_last
        self._next = _call("update", ast.Constant(1)) if is_last else _call(f"f{self.depth + 1}")
        self._on = {id(node) for called in self.calls for node in (*called.around, called.call)}
        body: list[ast.stmt] = []
        for _ in range(_ROUNDS):
            before = len(self.wanted)
            body = self._body(self.level.function.body)
            if len(self.wanted) == before:
                break
        tree = ast.parse(f"def f{self.depth}(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.body = body or tree.body
        return tree

    def _body(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [part for statement in statements for part in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, SCOPES):
            return []
        if isinstance(node, ast.For | ast.While) and id(node) in self._on:
            return [self._loop(node)]
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.With):
            self._check_head(node, node.body, node.items)
            return self._body(node.body)
        if isinstance(node, ast.Try):
            inside = [*node.body, *node.orelse, *node.finalbody]
            self._check_head(node, inside, [])
            for handler in node.handlers:
                self._leave_out(handler)
            return self._body(inside)
        if isinstance(node, ast.Break | ast.Continue):
            return [node]
        if isinstance(node, (*LOOPS, ast.Match, ast.AsyncWith, ast.TryStar)):
            self._leave_out(node)
            return []
        return self._simple(node)

    def _simple(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the reduction of a statement that contains no other statement."""
        leaves: list[ast.stmt] = [ast.Return()] if isinstance(node, ast.Return) else []
        binds = self.decides(node)
        if id(node) in self._on:
            if binds:
                raise Unknown("what the call returns decides")
            self._check_call(node)
            return [self._next, *leaves]
        if any(last_name(call) in _ENDS for call in calls_in(node)):
            raise Unknown("it may end the script")
        if not binds:
            return leaves
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=True)
                return [self._assign(one, of) for one, of in pairs if self.decides(one)]
            return [self._assign(target, value)]
        if isinstance(node, ast.AnnAssign) and node.value:
            return [self._assign(node.target, node.value)]
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            before = ast.Name(node.target.id, ast.Load())
            return [self._assign(node.target, ast.BinOp(before, node.op, node.value))]
        raise Unknown("a name is set in a way that is not read")

    def _assign(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        if not isinstance(target, ast.Name):
            raise Unknown("several names are set at once")
        name = ast.Name(mangled(self.depth, target.id), ast.Store())
        return ast.Assign([name], self.expression(value))

    def _if(self, node: ast.If) -> list[ast.stmt]:
        if any(id(inner) in self._on for inner in ast.walk(node.test)):
            raise Unknown("it is called in a test")
        yes, no = self._tried(node.body), self._tried(node.orelse)
        if not yes and not no:
            return []
        test = self.expression(node.test)
        if isinstance(test, ast.Constant):
            yes, no = (yes, []) if test.value else ([], no)
        for part in (yes, no):
            if isinstance(part, Unknown):
                raise part
        if isinstance(test, ast.Constant):
            return [*yes, *no]
        return [ast.If(test, yes or [ast.Pass()], no)]

    def _tried(self, statements: Iterable[ast.stmt]) -> Any:
        """Return the reduction of a branch, or the Unknown it raised: it may never be taken."""
        try:
            return self._body(statements)
        except Unknown as why:
            return why

    def _loop(self, node: ast.For | ast.While) -> ast.stmt:
        self._check_head(node, node.body, [])
        if isinstance(node, ast.While):
            body, orelse = self._turn(node), self._body(node.orelse)
            return ast.While(self.expression(node.test), [_call("tick"), *body], orelse)
        turns, counted = self.turns(node.iter, node.target)
        self.untold |= set(stored([node.target])) - {counted}
        if counted:
            self.counts(counted, node)
        body, orelse = self._turn(node), self._body(node.orelse)
        if self._is_last and body == [self._next] and not counted and not orelse:
            return _call("update", ast.Call(ast.Name("len", ast.Load()), [turns], []))
        target = mangled(self.depth, counted) if counted else "_"
        return ast.For(ast.Name(target, ast.Store()), turns, [_call("tick"), *body], orelse)

    def _turn(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        self.around.append(loop)
        try:
            return self._body(loop.body)
        finally:
            self.around.pop()

    # What is refused.

    def _check_head(
        self, node: ast.stmt, inside: Iterable[ast.AST], binding: Iterable[ast.AST]
    ) -> None:
        on = id(node) in self._on
        if on and not any(id(inner) in self._on for inner in inside):
            raise Unknown("it is called in the head of a statement, or after an exception")
        if self.decides(*binding):
            raise Unknown("with ... as")

    def _leave_out(self, node: ast.AST) -> None:
        """Raise Unknown if a dropped node may end the loops or set a variable that decides."""
        inside = [inner for inner in below(node) if inner is not node]
        jumps: tuple[type[ast.AST], ...] = (ast.Return,)
        if not isinstance(node, LOOPS):
            jumps = (ast.Return, ast.Break, ast.Continue)
        leaves = any(isinstance(inner, jumps) for inner in inside)
        ends = any(last_name(call) in _ENDS for call in calls_in(node))
        on = any(id(inner) in self._on for inner in inside)
        if leaves or ends or on or self.decides(node):
            raise Unknown("a part that is not read decides")

    def _check_call(self, node: ast.stmt) -> None:
        for called in self.calls:
            if node not in called.around:
                continue
            inside = called.around[called.around.index(node) + 1 :]
            if any(isinstance(inner, _SOMETIMES) for inner in inside):
                raise Unknown("it is called under a condition")
            name = last_name(called.call)
            if sum(last_name(call) == name for call in calls_in(node)) > 1:
                raise Unknown("it is called more than once in a statement")
