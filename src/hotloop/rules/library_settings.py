"""Says a remedy in the language of the library whose loop trains: its argument, and who sets it.

A script that hands its training to a library has no `DataLoader(...)` and no `if step % 50` to
change. The table has the arguments of the libraries (transformers 5.23 and Lightning 2.6, looked up
in their signatures); a remedy without an entry stays as its rule words it.
"""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Finding, Remedy

__all__ = ["SETTINGS", "LibrarySetting", "in_library"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySetting:
    """The arguments of a library that do what the text of a remedy says."""

    says: str  # pattern in the remedy's text
    arguments: str  # as they are typed, with the groups of the pattern
    owner: str = "TrainingArguments"  # what takes them
    older: str = ""  # how older versions say it

    def typed(self, text: str) -> str | None:
        """Return the arguments for a remedy, or None if it says something else."""
        match = re.search(self.says, text)
        return None if match is None else self.arguments.format(*match.groups())


_WORKERS = r"num_workers=(\d+), persistent_workers=True"
_TRAINER = "Trainer"
SETTINGS: Mapping[str, tuple[LibrarySetting, ...]] = {
    "transformers": (
        LibrarySetting(
            says=_WORKERS,
            arguments="dataloader_num_workers={0}, dataloader_persistent_workers=True",
        ),
        LibrarySetting(says=r"num_workers=(\d+)", arguments="dataloader_num_workers={0}"),
        LibrarySetting(says="pin_memory=True", arguments="dataloader_pin_memory=True"),
        LibrarySetting(
            says=r"batch_size=(\d+)\) .*evaluation", arguments="per_device_eval_batch_size={0}"
        ),
        LibrarySetting(
            says="batches of similar length",
            arguments="train_sampling_strategy='group_by_length'",
            older="group_by_length=True in transformers 4",
        ),
        LibrarySetting(
            says="pad in collate_fn",
            arguments="data_collator=DataCollatorWithPadding(tokenizer)",
            owner=_TRAINER,
        ),
        LibrarySetting(says=r"AdamW?\(\.\.\., fused=True\)", arguments="optim='adamw_torch_fused'"),
        LibrarySetting(
            says="gradient_checkpointing_disable", arguments="gradient_checkpointing=False"
        ),
        LibrarySetting(says="bfloat16, under autocast", arguments="bf16=True"),
        LibrarySetting(says="set_float32_matmul_precision", arguments="tf32=True"),
        LibrarySetting(says=r"^log every (\d+) steps", arguments="logging_steps={0}"),
        LibrarySetting(
            says=r"^evaluate every ([\d,]+) steps",
            arguments="eval_strategy='steps', eval_steps={0}",
        ),
        LibrarySetting(says="^save every N steps", arguments="save_strategy='epoch'"),
        LibrarySetting(
            says=r"^micro batches with (\d+) times",
            arguments="per_device_train_batch_size={0} times as large, "
            "gradient_accumulation_steps={0} times as small",
        ),
    ),
    "lightning": (
        LibrarySetting(
            says=r"^log every (\d+) steps", arguments="log_every_n_steps={0}", owner=_TRAINER
        ),
        LibrarySetting(
            says=r"^evaluate every ([\d,]+) steps",
            arguments="check_val_every_n_epoch=None, val_check_interval={0}",
            owner=_TRAINER,
        ),
        LibrarySetting(
            says="^save every N steps", arguments="every_n_epochs=1", owner="ModelCheckpoint"
        ),
        LibrarySetting(
            says="bfloat16, under autocast", arguments="precision='bf16-mixed'", owner=_TRAINER
        ),
        LibrarySetting(
            says=r"^micro batches with (\d+) times",
            arguments="accumulate_grad_batches={0} times as small",
            owner=_TRAINER,
        ),
    ),
}


def in_library(case: Case, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with their remedies and places in the words of the loop's library."""
    settings = SETTINGS.get(case.framework, ())
    return [_translated(case, finding, settings) for finding in findings]


def _translated(case: Case, finding: Finding, settings: tuple[LibrarySetting, ...]) -> Finding:
    remedies: dict[str, Remedy] = {}
    places = list(finding.places)
    for remedy in finding.remedies:
        setting = next((one for one in settings if one.typed(remedy.text) is not None), None)
        if setting is None:
            remedies.setdefault(remedy.text, remedy)
            continue
        arguments = setting.typed(remedy.text)
        assert arguments is not None
        names = re.findall(r"(\w+)=", f"{arguments} {setting.older}")
        set_at = _set_at(case, names)
        text = f"{setting.owner}({arguments})"
        if setting.owner == "TrainingArguments" and (flags := _flags(case, names)):
            text = f"{_as_flags(arguments)} on the command line, which has {flags} now"
        elif set_at is not None:
            text += ", which is set here"
            places = [set_at, *(place for place in places if place != set_at)]
        text += f" ({setting.older})" * bool(setting.older)
        remedies.setdefault(text, replace(remedy, text=text, effort="configuration line"))
    return replace(finding, remedies=list(remedies.values()), places=places)


def _flags(case: Case, names: list[str]) -> str:
    """Return the arguments of the command line that set one of the names, as they are typed."""
    typed = []
    for position, argument in enumerate(case.arguments):
        name, equals, _ = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and name.replace("-", "_") in names:
            following = case.arguments[position + 1 : position + 2]
            is_value = not equals and following and not following[0].startswith("--")
            typed.append(" ".join([argument, *following]) if is_value else argument)
    return " ".join(typed)


def _as_flags(arguments: str) -> str:
    pairs = re.findall(r"(\w+)=([^,]+)", arguments)
    return " ".join(f"--{name} {value.strip(chr(39))}" for name, value in pairs)


def _set_at(case: Case, names: list[str]) -> SourceLocation | None:
    """Return the first line of the project that passes one of these arguments to a call."""
    for file, text in case.sources.items():
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.keyword) and node.arg in names:
                    return SourceLocation(file=file, line=node.lineno)
    return None
