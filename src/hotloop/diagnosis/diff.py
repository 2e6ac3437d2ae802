"""Writes techniques into a script: the smallest changes that do what `hotloop run` does.

An argument of the library that trains comes first (library_arguments.py), in the code or on the
command line, whichever has it; else the code is edited. The script is read but not run;
tuning/verify_edits.py runs the edited copies. A change without a safe place is told in words.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.diagnosis.library_arguments import library_changes
from hotloop.diagnosis.project_source import read_project
from hotloop.diagnosis.script_options import Options, OptionValue
from hotloop.diagnosis.script_source import SourceEdit
from hotloop.diagnosis.torch_arguments import TORCH_MAKERS
from hotloop.diagnosis.value_origin import Change, Origins
from hotloop.rules.host.h24_returned_memory import ENVIRONMENT
from hotloop.rules.support.step_statements import of_a_step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.plan import Plan, Use, Value
    from hotloop.diagnosis.script_source import ScriptSource

__all__ = ["Suggested", "suggest"]

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
    "micro-batch": "multiply the batch size of the loader by the factor, and divide the number of "
    "micro batches in an optimizer step, and of the loss, by it",
    "device-prefetch": "read the loader one batch ahead of the loop, and copy that batch from "
    "pinned memory on a torch.cuda.Stream of its own",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A unified diff and a command line, and notes on them."""

    diff: str  # empty if no file changes
    notes: tuple[str, ...]
    args: tuple[str, ...]  # of the script; as they were if no option changes
    root: Path  # the folder that the names in the diff start from
    uses: tuple[Use, ...] = ()  # the techniques that it changes something for
    files: Mapping[Path, bytes] = field(default_factory=dict)  # the edited files, by real path
    least: int | None = None  # optimizer steps that a run makes at least, if one has shown it
    step: float | None = None  # seconds of a step there, roughly

    def changes(self, args: Sequence[str]) -> bool:
        """Whether it changes anything for a script that is called with `args`."""
        return bool(self.files) or self.args != tuple(args)


def suggest(
    path: Path, plan: Plan, args: Sequence[str] = (), *, edit_defaults: bool = False
) -> Suggested:
    """Return the changes of a plan to the script in `path`, which is called with `args`.

    With `edit_defaults`, the defaults of its options change instead of its command line. Raises
    UsageError if the script cannot be read.
    """
    project = read_project(path)
    origins = Origins(project, Options(project, args), edit_defaults=edit_defaults)
    changes, notes, placed = list[Change](), list[str](), list["Use"]()
    for use in plan.techniques:
        result, beside = _made(origins, use.id, dict(use.choice))
        if isinstance(result, str):
            notes.append(f"{use.id}: {result}")
        else:
            changes += result
            placed.append(use)
            notes += [f"{use.id}: {note}" for note in beside]
    edits = [change for change in changes if isinstance(change, SourceEdit)]
    root = _root(path.resolve())
    files = {
        source.path: source.edited(edits)
        for source in project.sources
        if any(edit.path == source.path for edit in edits)
    }
    words = tuple(args)
    for setting in (change for change in changes if isinstance(change, OptionValue)):
        words = origins.typed(setting, words)
    diffs = (
        _diff(file.relative_to(root), file.read_bytes(), after) for file, after in files.items()
    )
    return Suggested(
        diff="".join(diffs),
        notes=tuple(notes),
        args=words,
        root=root,
        uses=tuple(placed),
        files=files,
    )


def _made(origins: Origins, id: str, choice: _Choice) -> tuple[list[Change] | str, Sequence[str]]:
    """Return the changes of a technique, or why there are none, and notes on the changes."""
    beside = _BESIDE.get(id, ())
    made = library_changes(origins, id, choice)
    if made is not None:
        return made, beside if id == "loader-workers" else ()
    reasons = list[str]()
    for source in origins.project.sources:
        result = _in_code(origins, source, id, choice)
        if not isinstance(result, str):
            return [*result], beside
        reasons.append(result)
    return _IN_WORDS.get(id, reasons[0]), ()


def _in_code(
    origins: Origins, source: ScriptSource, id: str, choice: _Choice
) -> list[Change] | str:
    if id in TORCH_MAKERS:
        return TORCH_MAKERS[id](origins, source, choice)
    made = _MAKERS.get(id, _no_edit)(source, choice)
    return made if isinstance(made, str) else [*made]


def _root(path: Path) -> Path:
    """Return the folder that `git apply` takes names to start from, for a file.

    It is the top of the file's repository, else the current folder if the file is below it.
    """
    for folder in path.parents:
        if (folder / ".git").exists():
            return folder
    here = Path.cwd()
    return here if path.is_relative_to(here) else Path(path.anchor)


def _diff(name: Path, before: bytes, after: bytes) -> str:
    """Return the unified diff of a file; its lines end at LF only, as git counts them."""
    end = "\t" if " " in name.as_posix() else ""  # by which git ends a name with spaces
    old, new = (f"{side}/{name.as_posix()}{end}" for side in "ab")
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: bytes) -> list[str]:
    *lines, last = text.decode().split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


_Made = list[SourceEdit] | str
_Choice = dict[str, "Value"]


def _no_edit(script: ScriptSource, choice: _Choice) -> _Made:
    del script, choice
    return "it has no edit of its own; use hotloop run"


def _threads(script: ScriptSource, choice: _Choice) -> _Made:
    if not choice.get("count"):
        return "give torch.set_num_threads the number of cores this process may use"
    return _at_the_top("torch.set_num_threads({count})")(script, choice)


def _at_the_top(line: str) -> Callable[[ScriptSource, _Choice], _Made]:
    def make(script: ScriptSource, choice: _Choice) -> _Made:
        text = line.format(**choice)
        above = [] if script.first else script.importing("torch")
        first = script.first or script.after_imports
        edit = script.before(first, text) if first else None
        return [*above, edit] if edit and above is not None else f"put {text} after the imports"

    return make


def _compile(script: ScriptSource, choice: _Choice) -> _Made:
    """Compile the model in place before the loop; a library that fits it gets it compiled."""
    start = script.trainer_start
    if start is None or start[1].func.attr != "fit":  # type: ignore[attr-defined]
        in_place = "{model}.compile()  # in place; the names of its weights stay"
        return _before_the_loop(in_place)(script, choice)
    call = start[1]
    if not call.args or not isinstance(call.args[0], ast.Name) or script.first is None:
        return "pass torch.compile(model) to the trainer's fit"
    return [script.replacing(call.args[0], f"torch.compile({call.args[0].id})")]


def _before_the_loop(*lines: str, imports: str = "") -> Callable[[ScriptSource, _Choice], _Made]:
    def make(script: ScriptSource, choice: _Choice) -> _Made:
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


def _autocast(script: ScriptSource, choice: _Choice) -> _Made:
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
    return [edit, *(SourceEdit(script.path, start, start, "    ") for start in line_starts)]


def _has_long_string(statement: ast.stmt) -> bool:
    """Whether the statement contains a multi-line string, which must not be indented."""
    strings = (
        node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr)
    )
    return any(node.end_lineno != node.lineno for node in strings)


def _calls_name(statement: ast.stmt, name: str | None) -> bool:
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)


_MAKERS: Mapping[str, Callable[[ScriptSource, _Choice], _Made]] = {
    "autocast-bf16": _autocast,
    "channels-last": _before_the_loop("{model}.to(memory_format=torch.channels_last)"),
    "compile": _compile,
    "cudnn-benchmark": _at_the_top("torch.backends.cudnn.benchmark = True"),
    "gc-freeze": _before_the_loop("gc.collect()", "gc.freeze()", imports="gc"),
    "kept-memory": lambda *_: f"set {ENVIRONMENT} before python",
    "matmul-onednn": _at_the_top('torch.set_float32_matmul_precision("medium")'),
    "tf32": _at_the_top('torch.set_float32_matmul_precision("high")'),
    "threads": _threads,
}
_BESIDE: Mapping[str, Sequence[str]] = {
    "autocast-bf16": (
        "a loss computed outside of it gets bfloat16 outputs: give it outputs.float()",
    ),
    "channels-last": ("give it images in torch.channels_last as well",),
    "loader-workers": (
        "from its second epoch on another order may be drawn than now (persistent workers draw no "
        "seed, others do); hotloop run keeps the order",
    ),
}
