"""Reads the expressions that decide how often a loop iterates: numbers, tests and lengths."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hotloop.observe.loops.stack import SCOPES
from hotloop.observe.loops.values import SIMPLE, Unknown, is_from, length, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.observe.loops.stack import Called, Level

__all__ = ["Terms", "below", "below_all", "calls_in", "last_name", "mangled", "stored"]

_PLAIN = {"int", "min", "max", "abs", "bool", "round"}
_BARS = ("tqdm", "rich", "builtins")
_THROUGH = {"enumerate", "reversed", "sorted", "list", "tuple", "iter", "tqdm", "track"}
_ENDLESS = {"cycle", "count", "repeat"}
_FOREVER = 10**12  # iterations of an endless iterable


class Terms:
    """The expressions in one of the functions around an update.

    A name that changes becomes a variable, such as `v2_step` for `step` in the third function; any
    other name becomes a constant.
    """

    def __init__(
        self, depth: int, level: Level, calls: Sequence[Called], outer: Terms | None
    ) -> None:
        self.depth, self.level, self.calls, self.outer = depth, level, calls, outer
        self.is_repeated: bool = outer is not None and (outer.repeats or len(outer.calls) > 1)
        loops = [called.statement for called in calls if called.is_in_a_loop]
        self.repeats: bool = self.is_repeated or bool(loops)
        self._bound = set(stored(level.function.body))
        self.changing = self._bound if self.is_repeated else set(stored(loops))
        self.untold: set[str] = set()  # targets of loops that do not yield numbers
        self.wanted: set[str] = set()  # variables whose changes decide
        self.around: list[ast.stmt] = []  # loops around the statement being read
        self._uses: dict[str, list[list[ast.stmt]]] = {}  # name -> the loops around each use
        self._counts: dict[str, ast.stmt] = {}  # target of a loop -> its loop
        self.constants: dict[str, tuple[int, ast.expr, Any]] = {}

    def expression(self, node: ast.expr) -> ast.expr:
        """Return the expression reduced to plain values; raise Unknown where that is impossible."""
        reduced = self._reduced(node)
        if any(isinstance(inner, ast.Name) for inner in ast.walk(reduced)):
            return reduced
        return ast.Constant(_computed(reduced))

    def _reduced(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name) and node.id in self.changing - self.untold:
            self.wanted.add(node.id)
            self._uses.setdefault(node.id, []).append(list(self.around))
            return ast.Name(mangled(self.depth, node.id), ast.Load())
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self._reduced(node.left), node.op, self._reduced(node.right))
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, self._reduced(node.operand))
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self._reduced(part) for part in node.values])
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
            comparators = [self._reduced(part) for part in node.comparators]
            return ast.Compare(self._reduced(node.left), node.ops, comparators)
        if isinstance(node, ast.Call) and not node.keywords and self._is_from(node.func):
            if last_name(node) == "len" and len(node.args) == 1:
                return self.count(node.args[0])
            if last_name(node) in _PLAIN:
                function = ast.Name(last_name(node), ast.Load())
                return ast.Call(function, [self._reduced(part) for part in node.args], [])
        return self._constant(node)

    def _constant(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Compare):  # with `is`
            (operand, right), (operator,) = (node.left, *node.comparators), node.ops
            if not isinstance(right, ast.Constant) or right.value is not None:
                raise Unknown("is")
            return ast.Constant((self._fixed(operand) is None) == isinstance(operator, ast.Is))
        value = self._fixed(node)
        if type(value) not in SIMPLE:
            raise Unknown(ast.dump(node)[:60])
        if not isinstance(node, ast.Constant):
            self.constants.setdefault(ast.dump(node), (self.depth, node, value))
        return ast.Constant(value)

    # What changes.

    def counts(self, name: str, loop: ast.stmt) -> None:
        """Note that a loop assigns numbers to a name."""
        if self._counts.setdefault(name, loop) is not loop:
            raise Unknown("two loops have one variable")
        self.wanted.add(name)

    def decides(self, *nodes: ast.AST) -> bool:
        """Whether a variable that decides is bound in these nodes.

        A variable that a loop sets in each iteration may have any value outside of that loop.
        """
        for name in self.wanted.intersection(stored(nodes)):
            loop, uses = self._counts.get(name), self._uses.get(name, [])
            if loop is None or loop in self.around or not all(loop in use for use in uses):
                return True
        return False

    def _fixed(self, node: ast.expr) -> Any:
        """Return the value of an expression; raise Unknown if it may change."""
        attributes = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
        assigned = {
            inner.attr
            for inner in below_all(called.statement for called in self.calls)
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
        }
        if not self._is_fixed(node) or attributes & assigned:
            raise Unknown("it changes")
        return value_of(node, self.level.names)

    def _is_fixed(self, node: ast.AST) -> bool:
        """Whether none of the names in an expression changes."""
        names = (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
        return not any(map(self._may_change, names))

    def _may_change(self, name: str) -> bool:
        if name in self.changing or self.outer is None:
            return name in self.changing
        if name in self._parameters:
            arguments = [self._argument(called, name) for called in self.outer.calls]
            fixed = all(value is None or self.outer._is_fixed(value) for value in arguments)
            kinds = {None if value is None else ast.dump(value) for value in arguments}
            return self.is_repeated and not (fixed and len(kinds) == 1)
        return name not in self._bound and self.outer._may_change(name)  # a global one, say

    @property
    def _parameters(self) -> list[str]:
        function = self.level.function
        if isinstance(function, ast.Module):
            return []
        arguments = function.args
        return [
            parameter.arg
            for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]

    def _argument(self, called: Called, name: str) -> ast.expr | None:
        """Return the argument that a call passes for a parameter; None for the default."""
        call = called.call
        spread = any(isinstance(argument, ast.Starred) for argument in call.args)
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if name in keywords:
            return keywords[name]
        bound = self.level.at.is_method and isinstance(call.func, ast.Attribute)
        place = self._parameters.index(name) - bound
        if place < 0 or spread or None in keywords:
            return call.func if place < 0 else call
        return call.args[place] if place < len(call.args) else None

    def _is_from(self, node: ast.expr, *packages: str) -> bool:
        try:
            return is_from(value_of(node, self.level.names), *(packages or ("builtins",)))
        except Unknown:
            return False

    # How often a loop goes round.

    def turns(self, node: ast.expr, target: ast.expr) -> tuple[ast.expr, str | None]:
        """Return an expression to iterate over instead, and the name that gets its numbers."""
        name = target.id if isinstance(target, ast.Name) else None
        if isinstance(node, ast.List | ast.Tuple):
            if all(isinstance(element, ast.Constant) for element in node.elts):
                return ast.Tuple(list(node.elts), ast.Load()), name
        elif isinstance(node, ast.Call) and node.args:
            called = last_name(node)
            if called in ("range", "trange") and self._is_from(node.func, *_BARS):
                return _range(*map(self.expression, node.args)), name
            if called == "enumerate" and self._is_from(node.func):
                first = target.elts[0] if isinstance(target, ast.Tuple) else None
                starts = [*node.args[1:2], *(keyword.value for keyword in node.keywords)]
                begin = self.expression(starts[0]) if starts else ast.Constant(0)
                end = ast.BinOp(begin, ast.Add(), self.count(node.args[0]))
                return _range(begin, end), first.id if isinstance(first, ast.Name) else None
            if called in ("tqdm", "track") and self._is_from(node.func, *_BARS):
                return self.turns(node.args[0], target)
        return _range(self.count(node)), None

    def count(self, node: ast.expr) -> ast.expr:
        """Return an expression for the number of iterations of a loop over `node`."""
        if isinstance(node, ast.Name) and (source := self._wrapped_source(node.id)) is not None:
            return self.count(source)
        if not isinstance(node, ast.Call):
            measured = ast.Call(ast.Name("len", ast.Load()), [node], [])
            value = self._fixed(node)
            if isinstance(value, list | dict | set) and not self._is_only_read(node):
                raise Unknown("it may grow")
            count = length(value)
            self.constants.setdefault(ast.dump(measured), (self.depth, measured, count))
            return ast.Constant(count)
        called, arguments = last_name(node), node.args
        if called in _ENDLESS and len(arguments) < 2 and self._is_from(node.func, "itertools"):
            return ast.Constant(_FOREVER)
        if not arguments:
            raise Unknown(called)
        if called == "range" and self._is_from(node.func):
            numbers = _range(*map(self.expression, arguments))
            return ast.Call(ast.Name("len", ast.Load()), [numbers], [])
        if called == "zip" and self._is_from(node.func):
            return _least(*map(self.count, arguments))
        if called in _THROUGH and self._is_from(node.func, *_BARS):
            return self.count(arguments[0])
        if called == "islice" and len(arguments) == 2 and self._is_from(node.func, "itertools"):
            return _least(self.expression(arguments[1]), self.count(arguments[0]))
        if called == "randperm" and self._is_from(node.func, "torch"):
            return self.expression(arguments[0])
        if called == "split" and isinstance(node.func, ast.Attribute):
            return self._pieces(node.func.value, arguments[0])
        raise Unknown(called)

    def _wrapped_source(self, name: str) -> ast.expr | None:
        """Return the expression that a name in the loops is set to, if that is a progress bar."""
        if name not in self.changing:
            return None
        bindings = [
            statement
            for part in self.level.function.body
            for statement in below(part)
            if isinstance(statement, ast.stmt) and name in stored([statement])
        ]
        only = bindings[-1] if bindings else None  # the innermost of the nested statements
        if not isinstance(only, ast.Assign) or sum(isinstance(e, ast.Assign) for e in bindings) > 1:
            return None
        through = isinstance(only.value, ast.Call) and last_name(only.value) in ("tqdm", "track")
        return only.value if through else None

    def _is_only_read(self, node: ast.expr) -> bool:
        """Whether the loops and all other functions only read the container behind a name."""
        if not isinstance(node, ast.Name) or node.id in self._parameters:
            return False
        functions = [inner for inner in ast.walk(self.level.tree) if isinstance(inner, SCOPES)]
        bodies = [
            part
            for inner in functions
            if inner is not self.level.function and not isinstance(inner, ast.Lambda)
            for part in inner.body
        ]
        loops = [called.statement for called in self.calls]
        for inner in (part for statement in (*loops, *bodies) for part in below(statement)):
            handed: list[ast.expr] = []
            if isinstance(inner, ast.Attribute):
                handed = [inner.value]
            elif isinstance(inner, ast.Call) and last_name(inner) not in _THROUGH | {"len", "zip"}:
                handed = inner.args
            if any(isinstance(value, ast.Name) and value.id == node.id for value in handed):
                return False
        return True

    def _pieces(self, whole: ast.expr, size: ast.expr) -> ast.expr:
        """Return an expression for the number of pieces that a tensor is split into."""
        if not isinstance(whole, ast.Call) and not is_from(type(self._fixed(whole)), "torch"):
            raise Unknown("split")
        below_zero = ast.UnaryOp(ast.USub(), self.count(whole))
        down = ast.BinOp(below_zero, ast.FloorDiv(), self.expression(size))
        return ast.UnaryOp(ast.USub(), down)


def mangled(depth: int, name: str) -> str:
    """Return the name in the reduced code for a name in the function at `depth`."""
    return f"v{depth}_{name}"


def last_name(call: ast.Call) -> str:
    """Return the last name of the called function: "step" for "optimizer.step(...)"."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, without the bodies of nested functions."""
    yield node
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, SCOPES):
            yield from below(part)


def below_all(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that are no functions or classes, and all nodes below them."""
    return (part for node in nodes if not isinstance(node, SCOPES) for part in below(node))


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls below a node."""
    return (inner for inner in below(node) if isinstance(inner, ast.Call))


def stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that are bound or deleted below some nodes."""
    for inner in below_all(nodes):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            yield inner.id
        elif isinstance(inner, ast.ExceptHandler) and inner.name:
            yield inner.name
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            yield from inner.names
        elif isinstance(inner, ast.alias):
            yield (inner.asname or inner.name).partition(".")[0]


def _range(*numbers: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("range", ast.Load()), list(numbers), [])


def _least(*numbers: ast.expr) -> ast.expr:
    if len(numbers) == 1:
        return numbers[0]
    return ast.Call(ast.Name("min", ast.Load()), list(numbers), [])


def _computed(node: ast.expr) -> Any:
    """Return the value of an expression without names."""
    tree = ast.fix_missing_locations(ast.Expression(node))
    try:
        return eval(compile(tree, "<loops>", "eval"), {"__builtins__": {}})
    except (TypeError, ValueError, ArithmeticError):
        raise Unknown("it cannot be computed") from None
