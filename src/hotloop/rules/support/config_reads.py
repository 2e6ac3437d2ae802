"""Follow a configuration through the project's code to find the keys that are read by name.

A value is followed from the call that loads the file through variables, attributes, arguments and
results of the project's own functions. A section that escapes to where keys are not named (`**cfg`,
`cfg[key]`, a loop over it, a library function) counts as read whole. Variables are distinguished by
their function, attributes by name only, and statement order is ignored: keys may be overcounted.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import Function, dotted, variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.finding import SourceLocation
    from hotloop.rules.support.syntax import Module, ProjectCode

__all__ = ["Reads", "reads"]

ROOT, FILE = "", "\0file"  # the whole configuration; the file object or its text
ROUNDS = 8  # passes over the code: a value is followed one call further in each
_OPENING = {"open", "read_bytes", "read_text"}
_LOADING = {
    *(f"yaml.{name}" for name in ("load", "safe_load", "full_load", "unsafe_load")),
    *(f"{module}.{name}" for module in ("json", "tomllib", "tomli") for name in ("load", "loads")),
    "omegaconf.OmegaConf.load",
}
_SAME = {  # functions that keep the keys, as items or attributes
    *("AttrDict", "DotDict", "EasyDict", "Munch", "Namespace", "OrderedDict", "SimpleNamespace"),
    *("copy", "create", "deepcopy", "dict", "expandvars", "to_container"),
}
_SHOWING = {  # functions that only display or save it
    *("dump", "dumps", "safe_dump", "pprint", "print", "repr", "str", "save", "to_yaml"),
    *("bool", "id", "isinstance", "len", "type", "debug", "info", "warning"),
}

Paths = frozenset[str]
_NONE: Paths = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The dotted keys of one file that the code reads."""

    keys: Paths  # read by name
    # Those of `keys` that are read with a default, and the expressions that read them.
    asked: Mapping[str, Mapping[ast.AST, Module]]
    whole: Paths  # sections that are, or may be, read without naming their keys

    def covers(self, key: str) -> bool:
        """Whether a key lies in a section that is read whole."""
        segments = key.split(".")
        return any(".".join(segments[:n]) in self.whole for n in range(len(segments) + 1))


def reads(code: ProjectCode, place: SourceLocation) -> Reads | None:
    """Return the reads of the file opened at `place`; None: it cannot be followed."""
    flow = _Flow(code, place)
    for _ in range(ROUNDS):
        before = flow.size()
        flow.run()
        if flow.size() == before:
            break
    if flow.is_lost or not flow.is_loaded:
        return None
    return Reads(keys=frozenset(flow.keys), asked=flow.asked, whole=frozenset(flow.whole))


class _Flow:
    """The values known so far; each pass over the code adds to them."""

    def __init__(self, code: ProjectCode, place: SourceLocation) -> None:
        self._code, self._place = code, place
        self.keys, self.whole = set[str](), set[str]()
        self.asked: dict[str, dict[ast.AST, Module]] = {}  # keys that are read with a default
        self.is_lost = self.is_loaded = False
        self._names: dict[tuple[int, str], Paths] = defaultdict(frozenset)  # scope and name
        self._attributes: dict[str, Paths] = defaultdict(frozenset)
        self._returned: dict[int, Paths] = defaultdict(frozenset)  # by function
        self._module = code.modules[0] if code.modules else None
        self._scopes: list[Function] = []  # the enclosing functions, innermost last
        self._bound = {
            id(function): variables(function)
            for definitions in code.functions.values()
            for _, function in definitions
        }
        self._classes = {
            node.name: node for module, node in code.nodes() if isinstance(node, ast.ClassDef)
        }

    def size(self) -> int:
        """Return the number of known values."""
        tables = (self._names, self._attributes, self._returned)
        values = sum(len(paths) for table in tables for paths in table.values())
        return values + len(self.keys) + len(self.asked) + len(self.whole)

    def run(self) -> None:
        """Visit all of the code once."""
        for module in self._code.modules:
            self._module = module
            self._block(module.tree.body)

    # Statements.

    def _block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign() if node.value is not None:
                self._assign(node.target, node.value)
            case ast.AugAssign():
                self._bind(node.target, self._value(node.value))
            case ast.Return() if node.value is not None:
                paths = self._value(node.value)
                if self._scopes:
                    self._returned[id(self._scopes[-1])] |= paths
            case ast.For() | ast.AsyncFor():
                self._escape(self._value(node.iter))
                self._block([*node.body, *node.orelse])
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    paths = self._value(item.context_expr)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, paths)
                self._block(node.body)
            case ast.Expr() | ast.If() | ast.While() | ast.Assert() | ast.Delete():
                self._visit_children(node, contained=True)
            case _:
                self._visit_children(node, contained=False)

    def _visit_children(self, node: ast.AST, *, contained: bool) -> None:
        """Visit the children; values escape unless they are `contained`."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                paths = self._value(child)
                if not contained:
                    self._escape(paths)
            else:
                self._statement(child)

    def _function(self, node: Function) -> None:
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = zip(reversed(positional), reversed(arguments.defaults), strict=False)
        words = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in (*defaults, *words):
            if default is not None:
                self._names[id(node), argument.arg] |= self._value(default)
        self._scopes.append(node)
        self._block(node.body)
        self._scopes.pop()

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        pairs = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        if pairs and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for inner, inner_value in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._assign(inner, inner_value)
        else:
            self._bind(target, self._value(value))

    def _bind(self, target: ast.expr, paths: Paths) -> None:
        if isinstance(target, ast.Name):
            self._names[self._scope(target.id), target.id] |= paths
        elif isinstance(target, ast.Attribute):
            self._attributes[target.attr] |= paths
        else:
            self._escape(paths)

    def _scope(self, name: str) -> int:
        """Return the id of the function that owns a variable, else of the module."""
        for function in reversed(self._scopes):
            if name in self._bound.get(id(function), ()):
                return id(function)
        return id(self._module)

    def _escape(self, paths: Paths) -> None:
        self.is_lost = self.is_lost or FILE in paths
        self.whole |= paths - {FILE}

    # Expressions.

    def _value(self, node: ast.expr) -> Paths:
        """Return the sections that an expression may be, and record the keys that it reads."""
        match node:
            case ast.Name():
                return self._variable(node.id)
            case ast.Attribute():
                base = self._value(node.value)
                result = self._read(base, node.attr) if base - {FILE} else _NONE
                return result | (base & {FILE}) | self._attribute(node.attr)
            case ast.Subscript():
                return self._item(self._value(node.value), node.slice)
            case ast.Call():
                return self._call(node)
            case ast.BoolOp():
                return _NONE.union(*map(self._value, node.values))
            case ast.IfExp():
                self._value(node.test)
                return self._value(node.body) | self._value(node.orelse)
            case ast.BinOp():
                both = self._value(node.left) | self._value(node.right)
                return both if isinstance(node.op, ast.BitOr) else _NONE
            case ast.NamedExpr():
                result = self._value(node.value)
                self._bind(node.target, result)
                return result
            case ast.Compare():
                return self._compare(node)
            case ast.Dict():
                values = list(map(self._value, node.values))
                pairs = list(zip(node.keys, values, strict=True))
                self._escape(_NONE.union(*(paths for key, paths in pairs if key is not None)))
                return _NONE.union(*(paths for key, paths in pairs if key is None))
            case ast.JoinedStr() | ast.FormattedValue() | ast.UnaryOp():
                self._visit_children(node, contained=True)
            case _:
                self._visit_children(node, contained=False)
        return _NONE

    def _variable(self, name: str) -> Paths:
        scope = self._scope(name)
        if (scope, name) in self._names or scope != id(self._module) or self._module is None:
            return self._names[scope, name]
        origin = self._module.aliases.get(name, name).rpartition(".")[2]
        return self._attribute(origin) if name in self._module.aliases else _NONE

    def _attribute(self, name: str) -> Paths:
        """Return what an attribute, or a module variable, of that name may be."""
        ofs = (self._names[id(m), name] for m in self._code.modules if (id(m), name) in self._names)
        return self._attributes[name].union(*ofs)

    def _read(self, base: Paths, key: str, *, asking: ast.AST | None = None) -> Paths:
        paths = frozenset(f"{path}.{key}" if path else key for path in base - {FILE})
        self.keys |= paths
        if asking is not None and self._module is not None:
            for path in paths:
                self.asked.setdefault(path, {})[asking] = self._module
        return paths

    def _item(self, base: Paths, index: ast.expr) -> Paths:
        if isinstance(index, ast.Constant):
            return self._read(base, index.value) if isinstance(index.value, str) else base
        self._value(index)
        self._escape(base)
        return _NONE

    def _compare(self, node: ast.Compare) -> Paths:
        sides = [node.left, *node.comparators]
        values = [self._value(side) for side in sides]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, ast.In | ast.NotIn) and values[index + 1]:
                key = sides[index]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._read(values[index + 1], key.value, asking=node)
                else:
                    self._escape(values[index + 1])
        return _NONE

    # Calls.

    def _call(self, node: ast.Call) -> Paths:
        module = self._module
        assert module is not None
        name = module.name(node)
        last = name.rpartition(".")[2]
        line, last_line = self._place.line or 0, node.end_lineno or 0
        here = module.path == self._place.file and node.lineno <= line <= last_line
        if name in _LOADING:
            paths = self._arguments(node)
            if FILE not in _NONE.union(*paths) and not (here and "OmegaConf" in name):
                return _NONE
            self.is_loaded = True
            return frozenset({ROOT})
        base = _NONE
        if isinstance(node.func, ast.Attribute):
            base = self._value(node.func.value)
        elif not isinstance(node.func, ast.Name):
            self._value(node.func)
        if here and last in _OPENING:
            self._arguments(node)
            return frozenset({FILE})
        return self._method(node, last, base) if base else self._plain(node, last)

    def _arguments(self, node: ast.Call) -> list[Paths]:
        return [self._value(arg) for arg in (*node.args, *(w.value for w in node.keywords))]

    def _method(self, node: ast.Call, name: str, base: Paths) -> Paths:
        """Follow a method call on the configuration or its file."""
        if base == {FILE}:
            self._arguments(node)
            return base
        first = node.args[0] if node.args else None
        if name in ("get", "pop", "setdefault") and first is not None:
            for argument in (*node.args[1:], *(word.value for word in node.keywords)):
                self._value(argument)
            if not isinstance(first, ast.Constant):
                return self._item(base, first)
            may_lack = name != "pop" or len(node.args) > 1
            return self._read(base, str(first.value), asking=node if may_lack else None)
        for paths in self._arguments(node):
            self._escape(paths)
        if name == "copy":
            return base
        if name != "update":
            self._escape(base)
        return _NONE

    def _plain(self, node: ast.Call, name: str) -> Paths:
        """Follow a call that is not a method of the configuration."""
        if name in ("getattr", "hasattr") and len(node.args) > 1:
            base, key = self._value(node.args[0]), node.args[1]
            self._visit_children(ast.Tuple(node.args[2:]), contained=True)
            if base and isinstance(key, ast.Constant):
                may_lack = len(node.args) > 2 or name == "hasattr"
                return self._read(base, str(key.value), asking=node if may_lack else None)
            return self._item(base, key) if base else _NONE
        own = self._code.functions.get(name, ())
        if own:
            return self._call_own(node, [function for _, function in own])
        if name in self._classes:
            return self._construct(node, self._classes[name])
        if name in _SHOWING:
            self._display(node)
            return _NONE
        paths = _NONE.union(*self._arguments(node))
        if name in _SAME:
            return paths
        if name == "update" and isinstance(node.func, ast.Attribute) and paths - {FILE}:
            self._bind(_holder(node.func.value), paths)
            return _NONE
        self._escape(paths)
        return _NONE

    def _display(self, node: ast.Call) -> None:
        """Visit arguments that are displayed or saved, also inside a dict or list."""
        for arg in (*node.args, *(word.value for word in node.keywords)):
            inner = arg.values if isinstance(arg, ast.Dict) else getattr(arg, "elts", [arg])
            for value in inner:
                self._value(value)

    def _call_own(self, node: ast.Call, functions: Sequence[Function]) -> Paths:
        """Pass arguments on to functions of the project; return what they may return."""
        values = [(None, self._value(arg)) for arg in node.args]
        words = [(word.arg, self._value(word.value)) for word in node.keywords]
        for arg, (_, paths) in zip(node.args, values, strict=True):
            if isinstance(arg, ast.Starred):
                self._escape(paths)
        for function in functions:
            names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            skip = int(names[:1] in (["self"], ["cls"]))
            for index, (_, paths) in enumerate(values):
                known = index + skip < len(names)
                self._pass(function, names[index + skip] if known else None, paths)
            for word, paths in words:
                known = word in {*names, *(arg.arg for arg in function.args.kwonlyargs)}
                self._pass(function, word if known else None, paths)
        return _NONE.union(*(self._returned[id(function)] for function in functions))

    def _pass(self, function: Function, name: str | None, paths: Paths) -> None:
        if name is None:  # `**cfg`, or an argument taken by *args or **kwargs
            self._escape(paths)
        else:
            self._names[id(function), name] |= paths

    def _construct(self, node: ast.Call, kind: ast.ClassDef) -> Paths:
        """Instantiate a class of the project; without a constructor it counts as a dict."""
        inits = [f for f in kind.body if isinstance(f, Function) and f.name == "__init__"]
        if inits:
            self._call_own(node, inits)
            return _NONE
        spread = [word.value for word in node.keywords if word.arg is None]
        for value in spread:
            self._escape(self._value(value))
        paths = _NONE.union(*self._arguments(node))
        if kind.decorator_list:  # a dataclass: its fields keep the arguments
            self._escape(paths)
        return paths


def _holder(node: ast.expr) -> ast.expr:
    """Return `args` for args.__dict__ and vars(args), whose items are its attributes."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if isinstance(node, ast.Call) and dotted(node.func) == "vars" and node.args:
        return node.args[0]
    return node
