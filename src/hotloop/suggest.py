"""Writes techniques into a script: the smallest edits that do what `hotloop run` does, as a diff.

The script is read, not run. What has no safe place in it is said in words.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hotloop.core.plan import Plan, Value

__all__ = ["Suggested", "suggest"]

_FUSED = ("AdamW", "Adam", "SGD", "Adagrad")
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A unified diff, empty where nothing could be placed, and what is to be said beside it."""

    diff: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Text in the place of what stands between two byte offsets of the source."""

    start: int
    end: int
    text: str


def suggest(path: Path, plan: Plan) -> Suggested:
    """Return the edits of a plan to the script in `path`; UsageError when it cannot be read."""
    try:
        source = path.read_bytes()
        script = _Script(source, ast.parse(source, filename=str(path)))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Python: {error}") from error
    edits, said = list[_Edit](), list[str]()
    for use in plan.techniques:
        made = _MAKERS.get(use.id, _nowhere)(script, dict(use.choice))
        if isinstance(made, str):
            said.append(f"{use.id}: {_IN_WORDS.get(use.id, made)}")
        edits += made if isinstance(made, list) else []
        if (beside := _BESIDE.get(use.id)) is not None and isinstance(made, list):
            said.append(f"{use.id}: {beside}")
    after = source
    for edit in sorted(set(edits), reverse=True):
        after = after[: edit.start] + edit.text.encode() + after[edit.end :]
    ast.parse(after)  # an edit that breaks the script would be a bug of ours
    old, new = (text.decode().splitlines(keepends=True) for text in (source, after))
    name = path.as_posix().lstrip("/")
    return Suggested(
        diff="".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")), said=tuple(said)
    )


class _Script:
    """A script's text and tree."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int = 0) -> int:
        """Return the offset of a place as ast gives it: lines from 1, columns in bytes."""
        return self._starts[line - 1] + column

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Return the calls of functions that end in one of `names`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and _last_name(node.func) in names:
                yield node

    def keyword(self, call: ast.Call, name: str, value: str) -> _Edit | None:
        """Return the edit that gives a call a keyword; None where it has it already."""
        for given in call.keywords:
            if given.arg == name:
                node: Any = given.value
                old = ast.unparse(node)
                start = self.at(node.lineno, node.col_offset)
                end = self.at(node.end_lineno, node.end_col_offset)
                return None if old == value else _Edit(start, end, value)
        assert call.end_lineno is not None
        assert call.end_col_offset is not None
        close = self.at(call.end_lineno, call.end_col_offset) - 1
        text = self.source[:close].rstrip()
        comma = "" if text.endswith((b",", b"(")) else ", "
        space = " " if text.endswith(b",") else ""
        return _Edit(len(text), len(text), f"{comma}{space}{name}={value}")

    def before(self, statement: ast.stmt, *lines: str) -> _Edit:
        """Return the edit that puts lines before a statement, indented as it is."""
        decorators = getattr(statement, "decorator_list", [])
        start = self.at(min(node.lineno for node in (statement, *decorators)))
        text = "".join(f"{' ' * statement.col_offset}{line}\n" for line in lines)
        return _Edit(start, start, text)

    @cached_property
    def loop(self) -> ast.For | ast.While | None:
        """The outermost loop in which a backward pass is made."""
        for node in ast.walk(self.tree):  # by breadth: the outermost comes first
            if isinstance(node, ast.For | ast.While) and _calls_method(node, "backward"):
                return node
        return None

    @cached_property
    def model(self) -> str | None:
        """The variable whose parameters go to an optimizer."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and _last_name(node.func) == "parameters":
                owner = node.func.value if isinstance(node.func, ast.Attribute) else None
                if isinstance(owner, ast.Name):
                    return owner.id
        return None

    @property
    def first(self) -> ast.stmt | None:
        """The first statement at the top after the imports."""
        body = self.tree.body
        last = max(
            (n for n, node in enumerate(body) if isinstance(node, ast.Import | ast.ImportFrom)),
            default=-1,
        )
        imports = any(a.name == "torch" for n in body if isinstance(n, ast.Import) for a in n.names)
        return body[last + 1] if imports and 0 <= last < len(body) - 1 else None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _calls_method(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and _last_name(n.func) == name for n in ast.walk(node))


_Made = list[_Edit] | str
_Choice = dict[str, "Value"]


def _nowhere(script: _Script, choice: _Choice) -> _Made:
    del script, choice
    return "it has no edit of its own; use hotloop run"


def _fused(script: _Script, choice: _Choice) -> _Made:
    del choice
    edits = [script.keyword(call, "fused", "True") for call in script.calls(*_FUSED)]
    return [edit for edit in edits if edit] or "no optimizer of torch's is built in this file"


def _workers(script: _Script, choice: _Choice) -> _Made:
    loaders = list(script.calls("DataLoader"))
    shuffled = [c for c in loaders if any(k.arg == "shuffle" for k in c.keywords)]
    edits: list[_Edit | None] = []
    for call in shuffled or loaders:
        edits.append(script.keyword(call, "num_workers", str(choice.get("count", 2))))
        edits.append(script.keyword(call, "persistent_workers", "True"))
    return [edit for edit in edits if edit] or "no DataLoader is built in this file"


def _at_the_top(line: str) -> Callable[[_Script, _Choice], _Made]:
    def make(script: _Script, choice: _Choice) -> _Made:
        text = line.format(**{"count": 1, **choice})
        if script.first is None:
            return f"put {text} after the imports"
        return [script.before(script.first, text)]

    return make


def _before_the_loop(*lines: str) -> Callable[[_Script, _Choice], _Made]:
    def make(script: _Script, choice: _Choice) -> _Made:
        del choice
        texts = [line.format(model=script.model) for line in lines]
        if script.loop is None or script.model is None:
            return f"put {'; '.join(texts)} before the training loop"
        return [script.before(script.loop, *texts)]

    return make


def _autocast(script: _Script, choice: _Choice) -> _Made:
    """Put the statement of the training loop that calls the model under autocast."""
    del choice
    name, loop = script.model, script.loop
    found = [] if loop is None else [s for s in _simple(loop) if _calls_name(s, name)]
    if not found:
        return f"call {name or 'the model'} within torch.autocast(device_type, torch.bfloat16)"
    one = found[0]
    assert one.end_lineno is not None
    head = f"with torch.autocast(next({name}.parameters()).device.type, torch.bfloat16):"
    with_head = script.before(one, head)
    more = [script.at(line) for line in range(one.lineno + 1, one.end_lineno + 1)]
    return [
        _Edit(with_head.start, with_head.end, f"{with_head.text}    "),
        *(_Edit(start, start, "    ") for start in more),
    ]


def _simple(loop: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
            yield node


def _calls_name(statement: ast.stmt, name: str | None) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)


_MAKERS: Mapping[str, Callable[[_Script, _Choice], _Made]] = {
    "autocast-bf16": _autocast,
    "channels-last": _before_the_loop("{model}.to(memory_format=torch.channels_last)"),
    "compile": _before_the_loop("{model}.compile()  # in place; the names of its weights stay"),
    "cudnn-benchmark": _at_the_top("torch.backends.cudnn.benchmark = True"),
    "fused-adamw": _fused,
    "gc-freeze": _before_the_loop("import gc", "gc.collect()", "gc.freeze()"),
    "loader-workers": _workers,
    "matmul-onednn": _at_the_top('torch.set_float32_matmul_precision("medium")'),
    "tf32": _at_the_top('torch.set_float32_matmul_precision("high")'),
    "threads": _at_the_top("torch.set_num_threads({count})"),
}
_BESIDE = {
    "autocast-bf16": "a loss computed outside of it gets bfloat16 outputs: give it outputs.float()",
    "channels-last": "give it images in torch.channels_last as well",
    "loader-workers": "from its second epoch on, another order is drawn than without workers "
    "(persistent workers draw no seed); hotloop run keeps the order",
}
