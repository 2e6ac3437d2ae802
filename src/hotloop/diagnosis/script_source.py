"""The text and tree of a Python file, and the edits that a suggestion makes to it."""

from __future__ import annotations

import ast
import bisect
import codecs
import io
import itertools
import tokenize
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import UsageError
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hotloop.rules.support.syntax import Module

__all__ = ["ScriptSource", "SourceEdit", "read_source"]

_BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True, order=True)
class SourceEdit:
    """A replacement of the text of a file between two byte offsets."""

    path: Path
    start: int
    end: int
    text: str
    is_argument: bool = False  # added to a call, where others may be added as well


def read_source(path: Path) -> ScriptSource:
    """Read a Python file; raise UsageError if it cannot be read or is not valid UTF-8 Python."""
    try:
        raw = path.read_bytes()
        ast.parse(raw, filename=str(path))
        mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
        [module] = parse({str(path): raw.removeprefix(mark).decode()}).modules
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Python: {error}") from error
    return ScriptSource(path, module, mark)


class ScriptSource:
    """The text and tree of a Python file; positions count from behind its byte order mark."""

    def __init__(self, path: Path, module: Module, mark: bytes = b"") -> None:
        self.path, self.module, self.tree = path, module, module.tree
        self.source, self.mark = module.text.encode(), mark
        self.newline = "\r\n" if b"\r\n" in self.source else "\n"
        sizes = (len(line) for line in self.source.splitlines(keepends=True))
        self._starts = [0, *itertools.accumulate(sizes)]

    def offset(self, line: int, column: int = 0) -> int:
        """Return the byte offset of an ast position: lines count from 1, columns in bytes."""
        return self._starts[line - 1] + column

    def calls(self, package: str, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of a package's functions that have no starred argument."""
        for call in (node for node in ast.walk(self.tree) if isinstance(node, ast.Call)):
            origin, _, name = self.module.name(call).rpartition(".")
            starred = any(isinstance(argument, ast.Starred) for argument in call.args)
            unpacked = any(keyword.arg is None for keyword in call.keywords)
            is_listed = name in names and f"{origin}.".startswith(f"{package}.")
            if is_listed and not starred and not unpacked:
                yield call

    def keywords(
        self, call: ast.Call, *, own_lines: bool = False, **values: str
    ) -> list[SourceEdit]:
        """Return the edits that set these keywords of a call, replacing those it has.

        With `own_lines`, each is added on a line of its own where the call's last argument has one.
        """
        edits = []
        for keyword in call.keywords:
            if keyword.arg is not None and (value := values.pop(keyword.arg, None)) is not None:
                start, end = self.span(keyword.value)
                edits.append(SourceEdit(self.path, start, end, value))
        if not values:
            return edits
        _, over = self.span(call)
        end = self._ends[bisect.bisect_right(self._ends, over - 1) - 1]  # before the parenthesis
        words: list[Any] = [*call.args, *call.keywords]
        last = max(words, key=lambda word: word.lineno, default=None)
        if own_lines and last and last.lineno > call.lineno and self.source[end - 1 : end] == b",":
            indent = self.newline + " " * last.col_offset
            text = "".join(f"{indent}{name}={value}," for name, value in values.items())
            return [*edits, SourceEdit(self.path, end, end, text)]
        comma = {b"(": "", b",": " "}.get(self.source[end - 1 : end], ", ")
        text = comma + ", ".join(f"{name}={value}" for name, value in values.items())
        first = self.span(call.args[0]) if call.args else (0, 0)
        if first[1] == over:  # a sole generator argument has no parentheses of its own
            edits.append(SourceEdit(self.path, first[0], first[0], "("))
            text = f"){text}"
        return [*edits, SourceEdit(self.path, end, end, text, is_argument=True)]

    def span(self, node: Any) -> tuple[int, int]:
        """Return the byte offsets between which an expression or a statement stands."""
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    @cached_property
    def _ends(self) -> list[int]:
        """The end offsets of all tokens except comments and blanks, in order."""
        tokens = tokenize.generate_tokens(io.StringIO(self.module.text).readline)
        return [
            self.offset(token.end[0], len(token.line[: token.end[1]].encode()))
            for token in tokens
            if token.type not in _BLANK
        ]

    def before(self, statement: ast.stmt, *lines: str, deeper: str = "") -> SourceEdit | None:
        """Return the edit that inserts lines before a statement, at its indentation.

        `deeper` is added to the indentation of the statement itself. Return None if other code
        precedes the statement on its line.
        """
        decorators = getattr(statement, "decorator_list", [])
        start = self.offset(min(node.lineno for node in (statement, *decorators)))
        end = start + statement.col_offset
        indent = self.source[start:end].decode()
        if indent.strip():
            return None
        text = "".join(f"{line}{self.newline}{indent}" for line in lines)
        return SourceEdit(self.path, end, end, text + deeper)

    def quoted(self, value: str) -> str:
        """Return Python text with the kind of quotes that the file has most of."""
        prefers_double = self.source.count(b'"') >= self.source.count(b"'")
        return value.replace("'", '"') if prefers_double else value

    def replacing(self, node: ast.expr, text: str) -> SourceEdit:
        """Return the edit that puts other text in the place of an expression."""
        return SourceEdit(self.path, *self.span(node), text)

    def edited(self, edits: Iterable[SourceEdit]) -> bytes:
        """Return the whole file with those of the edits that are its own."""
        after, begun = self.source, set[int]()
        for edit in sorted({edit for edit in edits if edit.path == self.path}, reverse=True):
            text, rest = edit.text, after[edit.end :]
            if edit.is_argument and edit.start in begun:
                rest = b", " + rest.lstrip(b", ")  # what was added there follows
            begun |= {edit.start} if edit.is_argument else set()
            after = after[: edit.start] + text.encode() + rest
        ast.parse(after)  # an edit that breaks the script would be a bug of hotloop
        return self.mark + after

    def importing(self, name: str) -> list[SourceEdit] | None:
        """Return the edits that import a module at the top; None if that is not safe."""
        imports = [node for node in ast.walk(self.tree) if _binds(node, name)]
        if imports:
            return [] if all(node in self.tree.body for node in imports) else None
        for node in self.tree.body:
            if _imports(node) and getattr(node, "module", "") != "__future__":
                edit = self.before(node, f"import {name}")
                return [edit] if edit else None
        return None

    def knows(self, name: str, statement: ast.stmt) -> bool:
        """Whether a name is bound at the top, or in a function that contains the statement."""
        around = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef) and statement in ast.walk(node)
        ]
        bodies = (self.tree.body, *(function.body for function in around))
        arguments = {
            argument.arg
            for f in around
            for argument in ast.walk(f.args)
            if isinstance(argument, ast.arg)
        }
        return name in arguments or any(name in _assigned(body) for body in bodies)

    @cached_property
    def loop(self) -> ast.stmt | None:
        """The outermost loop that contains a backward pass, or the start of a library's loop."""
        for node in ast.walk(self.tree):  # breadth first, so that the outermost loop comes first
            if isinstance(node, ast.For | ast.While) and any(calls(node, "backward")):
                return node
        return None if self.trainer_start is None else self.trainer_start[0]

    @cached_property
    def trainer_start(self) -> tuple[ast.stmt, ast.Call] | None:
        """The only statement that starts a library's trainer, and its call `trainer.fit(...)`."""
        trainers = {
            target.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if isinstance(target, ast.Name) and self.module.name(node.value).endswith("Trainer")
        }
        starts = [
            (statement, call)
            for statement in ast.walk(self.tree)
            if isinstance(statement, ast.Assign | ast.Expr)
            for call in calls(statement, "train", "fit")
            if isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in trainers
        ]
        return starts[0] if len(starts) == 1 else None

    @cached_property
    def model(self) -> str | None:
        """The variable whose parameters go to an optimizer."""
        for call in calls(self.tree, "parameters"):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(owner, ast.Name):
                return owner.id
        return None

    @property
    def first(self) -> ast.stmt | None:
        """The first top-level statement after `import torch` and the imports that follow it."""
        for number, node in enumerate(self.tree.body):
            if _binds(node, "torch"):
                return next(itertools.dropwhile(_imports, self.tree.body[number:]), None)
        return None

    @property
    def after_imports(self) -> ast.stmt | None:
        """The first top-level statement after the first imports; None without any."""
        rest = itertools.dropwhile(lambda node: not _imports(node), self.tree.body)
        return next(itertools.dropwhile(_imports, rest), None)


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements bind, except in nested functions and classes."""
    names, pending = set[str](), list[ast.AST](body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
    return names


def _imports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _binds(node: ast.AST, module: str) -> bool:
    """Whether the node is an import that binds a module under its own name."""
    names = node.names if isinstance(node, ast.Import) else []
    return any(not a.asname and a.name.partition(".")[0] == module for a in names)
