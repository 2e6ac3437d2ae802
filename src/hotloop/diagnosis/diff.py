"""Writes techniques into a script: the smallest edits that do what `hotloop run` does, as a diff.

The script is read but not run; tuning/verify_edits.py runs the edited copies. An edit that has no
safe place in the script is described in words.
"""

from __future__ import annotations

import ast
import bisect
import difflib
import io
import itertools
import tokenize
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import UsageError
from hotloop.rules.host.h24_returned_memory import ENVIRONMENT
from hotloop.rules.support.step_statements import of_a_step
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.plan import Plan, Value
    from hotloop.rules.support.syntax import Module

__all__ = ["Suggested", "suggest"]

_FUSED = ("AdamW", "Adam", "SGD", "Adagrad")
_BEFORE_WORKERS = 5  # parameters of DataLoader before num_workers
_NO_WORKERS = {"persistent_workers": "False", "prefetch_factor": "None", "timeout": "0"}
_UNSAID = {"num_workers": "0", "pin_memory": "False"}  # the defaults of DataLoader
_BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_IN_WORDS = {
    "autocast-fp16": "wrap the model's call in torch.autocast(..., torch.float16), and scale the "
    "loss with torch.amp.GradScaler; unscale_ before gradients are clipped",
    "activation-checkpointing": "call the blocks through torch.utils.checkpoint.checkpoint("
    "block, x, use_reentrant=False), or model.gradient_checkpointing_enable() of transformers",
    "sdpa": "compute attention by torch.nn.functional.scaled_dot_product_attention; a model of "
    'transformers takes attn_implementation="sdpa"',
    "sample-cache": "compute what __getitem__ computes once, in __init__, and keep it",
    "vectorised-reads": "give the data set __getitems__(indices), which cuts a whole batch",
    "dynamic-padding": "pad in the collate function, to the longest row of the batch",
    "length-bucketing": "give the DataLoader a batch_sampler that sorts 50 batches' worth of "
    "shuffled indices by length, cuts them into batches and shuffles these",
    "token-budget": "give the DataLoader a batch_sampler that fills each batch up to a number of "
    "tokens: rows times the longest row",
    "device-prefetch": "read the loader one batch ahead of the loop, and copy that batch from "
    "pinned memory on a torch.cuda.Stream of its own",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A unified diff, empty if no edit could be placed, and notes on it."""

    diff: str
    notes: tuple[str, ...]
    source: bytes  # the edited script


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """A replacement of the source text between two byte offsets."""

    start: int
    end: int
    text: str


def suggest(path: Path, plan: Plan) -> Suggested:
    """Return the edits of a plan to the script in `path`; UsageError when it cannot be read."""
    try:
        source = path.read_bytes()
        ast.parse(source, filename=str(path))
        [module] = parse({str(path): source.decode("utf-8-sig")}).modules
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Python: {error}") from error
    script = _Script(module)
    edits, notes = list[_Edit](), list[str]()
    for use in plan.techniques:
        result = _MAKERS.get(use.id, _no_edit)(script, dict(use.choice))
        if isinstance(result, str):
            notes.append(f"{use.id}: {_IN_WORDS.get(use.id, result)}")
        edits += result if isinstance(result, list) else []
        if (beside := _BESIDE.get(use.id)) is not None and isinstance(result, list):
            notes.append(f"{use.id}: {beside}")
    after = script.source
    for edit in sorted(set(edits), reverse=True):
        after = after[: edit.start] + edit.text.encode() + after[edit.end :]
    ast.parse(after)  # an edit that breaks the script would be a bug of hotloop
    name = path.as_posix().lstrip("/")
    lines = difflib.unified_diff(_lines(script.source), _lines(after), f"a/{name}", f"b/{name}")
    terminated = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return Suggested(diff="".join(terminated), notes=tuple(notes), source=after)


def _lines(source: bytes) -> list[str]:
    """Return the lines as Python and patch count them; str.splitlines also splits at form feeds."""
    return [line.decode() for line in source.splitlines(keepends=True)]


class _Script:
    """A script's text and tree."""

    def __init__(self, module: Module) -> None:
        self.module, self.tree, self.source = module, module.tree, module.text.encode()
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

    def keywords(self, call: ast.Call, **values: str) -> list[_Edit]:
        """Return the edits that set these keywords of a call, replacing those it has."""
        edits = []
        for keyword in call.keywords:
            if keyword.arg is not None and (value := values.pop(keyword.arg, None)) is not None:
                start, end = self._span(keyword.value)
                edits.append(_Edit(start, end, value))
        if not values:
            return edits
        _, over = self._span(call)
        end = self._ends[bisect.bisect_right(self._ends, over - 1) - 1]  # before the parenthesis
        comma = {b"(": "", b",": " "}.get(self.source[end - 1 : end], ", ")
        text = comma + ", ".join(f"{name}={value}" for name, value in values.items())
        first = self._span(call.args[0]) if call.args else (0, 0)
        if first[1] == over:  # a sole generator argument has no parentheses of its own
            edits.append(_Edit(first[0], first[0], "("))
            text = f"){text}"
        return [*edits, _Edit(end, end, text)]

    def _span(self, node: Any) -> tuple[int, int]:
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

    def before(self, statement: ast.stmt, *lines: str, deeper: str = "") -> _Edit | None:
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
        return _Edit(end, end, "".join(f"{line}\n{indent}" for line in lines) + deeper)

    def importing(self, name: str) -> list[_Edit] | None:
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
    def loop(self) -> ast.For | ast.While | None:
        """The outermost loop that contains a backward pass."""
        for node in ast.walk(self.tree):  # breadth first, so that the outermost loop comes first
            if isinstance(node, ast.For | ast.While) and any(calls(node, "backward")):
                return node
        return None

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


def _off(call: ast.Call, name: str) -> bool:
    """Whether a keyword is absent, or is a literal 0, False or None."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return all(isinstance(value, ast.Constant) and not value.value for value in values)


_Made = list[_Edit] | str
_Choice = dict[str, "Value"]


def _no_edit(script: _Script, choice: _Choice) -> _Made:
    del script, choice
    return "it has no edit of its own; use hotloop run"


def _fused(script: _Script, choice: _Choice) -> _Made:
    del choice
    edits: list[_Edit] = []
    for call in script.calls("torch.optim", *_FUSED):
        if all(_off(call, name) for name in ("fused", "foreach", "differentiable")):
            edits += script.keywords(call, fused="True")
    return edits or "no optimizer of torch's is built in this file that could take it"


def _workers(script: _Script, choice: _Choice) -> _Made:
    loaders = [
        (call, words)
        for call in script.calls("torch.utils.data", "DataLoader")
        if len(call.args) <= _BEFORE_WORKERS and (words := _loader_words(call, choice))
    ]
    shuffled = [pair for pair in loaders if any(k.arg == "shuffle" for k in pair[0].keywords)]
    edits: list[_Edit] = []
    for call, words in shuffled or loaders:
        edits += script.keywords(call, **words)
    return (
        edits or "no DataLoader whose plain number of worker processes would change is built here"
    )


def _loader_words(call: ast.Call, choice: _Choice) -> dict[str, str]:
    """Return the keywords that a DataLoader shall have.

    Return none if it has them already, or if its number of workers is not a literal.
    """
    present = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    count, pin = choice.get("count", 2), {"on": "True", "off": "False"}.get(str(choice.get("pin")))
    words = {"num_workers": str(count)} | ({"pin_memory": pin} if pin else {})
    if not count:  # DataLoader raises ValueError for options of workers without workers
        words |= {name: off for name, off in _NO_WORKERS.items() if name in present}
    else:
        words |= {"persistent_workers": "True"} if _off(call, "persistent_workers") else {}
        if "ahead" in choice or "prefetch_factor" in present:
            words["prefetch_factor"] = str(choice.get("ahead", 2))
    plain = present.get("num_workers", "0").isdigit()
    changes = any(present.get(name, _UNSAID.get(name)) != word for name, word in words.items())
    return words if plain and changes else {}


def _threads(script: _Script, choice: _Choice) -> _Made:
    if not choice.get("count"):
        return "give torch.set_num_threads the number of cores this process may use"
    return _at_the_top("torch.set_num_threads({count})")(script, choice)


def _at_the_top(line: str) -> Callable[[_Script, _Choice], _Made]:
    def make(script: _Script, choice: _Choice) -> _Made:
        text = line.format(**choice)
        edit = script.before(script.first, text) if script.first else None
        return [edit] if edit else f"put {text} after the imports"

    return make


def _before_the_loop(*lines: str, imports: str = "") -> Callable[[_Script, _Choice], _Made]:
    def make(script: _Script, choice: _Choice) -> _Made:
        del choice
        model, loop = script.model, script.loop
        texts = [line.format(model=model or "model") for line in lines]
        edit = script.before(loop, *texts) if loop else None
        above = script.importing(imports) if imports else []
        needs_model = "{model}" in "".join(lines)
        lacks_model = needs_model and not (model and loop and script.knows(model, loop))
        lacks_torch = "torch." in "".join(lines) and script.first is None
        if edit is None or above is None or lacks_model or lacks_torch:
            words = "; ".join(text.partition("  #")[0] for text in texts)
            return f"put {words} before the training loop"
        return [*above, edit]

    return make


def _autocast(script: _Script, choice: _Choice) -> _Made:
    """Put the statement that calls the model for the backward pass under autocast."""
    del choice
    name = script.model
    statements = [s for s in of_a_step(script.tree) if _calls_name(s, name)]
    if len(statements) != 1:  # with several, the edited one may not be the one that trains
        statements = []
    head = f"with torch.autocast(next({name}.parameters()).device.type, torch.bfloat16):"
    edit = script.before(statements[0], head, deeper="    ") if statements else None
    if edit is None or script.first is None or _has_long_string(statements[0]):
        return f"call {name or 'the model'} within torch.autocast(device_type, torch.bfloat16)"
    last = statements[0].end_lineno or statements[0].lineno
    line_starts = [script.offset(line) for line in range(statements[0].lineno + 1, last + 1)]
    return [edit, *(_Edit(start, start, "    ") for start in line_starts)]


def _has_long_string(statement: ast.stmt) -> bool:
    """Whether the statement contains a multi-line string, which must not be indented."""
    strings = (
        node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr)
    )
    return any(node.end_lineno != node.lineno for node in strings)


def _calls_name(statement: ast.stmt, name: str | None) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)


_MAKERS: Mapping[str, Callable[[_Script, _Choice], _Made]] = {
    "autocast-bf16": _autocast,
    "channels-last": _before_the_loop("{model}.to(memory_format=torch.channels_last)"),
    "compile": _before_the_loop("{model}.compile()  # in place; the names of its weights stay"),
    "cudnn-benchmark": _at_the_top("torch.backends.cudnn.benchmark = True"),
    "fused-adamw": _fused,
    "gc-freeze": _before_the_loop("gc.collect()", "gc.freeze()", imports="gc"),
    "kept-memory": lambda *_: f"set {ENVIRONMENT} before python",
    "loader-workers": _workers,
    "matmul-onednn": _at_the_top('torch.set_float32_matmul_precision("medium")'),
    "tf32": _at_the_top('torch.set_float32_matmul_precision("high")'),
    "threads": _threads,
}
_BESIDE = {
    "autocast-bf16": "a loss computed outside of it gets bfloat16 outputs: give it outputs.float()",
    "channels-last": "give it images in torch.channels_last as well",
    "loader-workers": "from its second epoch on another order may be drawn than now (persistent "
    "workers draw no seed, others do); hotloop run keeps the order",
}
