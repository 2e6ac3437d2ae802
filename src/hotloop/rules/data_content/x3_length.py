"""The rows are cut, or are not as long as the configuration says.

Looks at: the width of sampled training batches, rows that fill it, and the configured length.
Says so when: 5 % of the rows fill the whole width though rows vary (a warning from 20 % on, from
    half of the rows on where the project names that length itself), or all batches are another
    width than the configured length. Before a run: 1 % of the tokens lie beyond data.max_length (a
    warning from 10 % on).
Stays silent when: rows are cut on purpose into windows of that length.
Remedy: a longer limit, or the one that is meant.
Numbers: training: the model sees more of each row.
Seen: examples/planted/padded_labels.py.
Source: three of the five projects; the thresholds are ours.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule
from hotloop.rules.support.config_files import requested
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["RULE"]

CUT, MANY, MOST = 0.05, 0.20, 0.50
TOKENS_NOTE, TOKENS_WARN = 0.01, 0.10  # of the tokens of a planned run
_NAMED = re.compile(r"len|pad_?size|block_?size|context|window|max_?tok")
LENGTH = (
    "block_size",
    "context_length",
    "max_len",
    "max_length",
    "max_seq_len",
    "max_seq_length",
    "seq_len",
    "seq_length",
    "sequence_length",
)


def judge(case: Case) -> Finding | None:
    """Compare widths with the setting, then with the rows."""
    for batch in case.batches:
        if batch.role != "train" or not batch.widths:
            continue
        finding = _not_in_effect(case, batch) or _cut(case, batch)
        if finding is not None:
            return finding
    return None


def _not_in_effect(case: Case, batch: BatchFacts) -> Finding | None:
    widest = max(batch.widths)
    one_width = len(set(batch.widths)) == 1 and batch.sampled > 1
    settings = [s for s in requested(case, LENGTH) if (s.value or "").isdigit()]
    # a language model's batch is one longer or shorter than its window
    if not settings or any(abs(int(s.value or 0) - widest) <= 1 for s in settings):
        return None
    setting = settings[0]
    if not one_width and widest <= int(setting.value or 0):
        return None
    return Finding(
        claim=f"{setting.key}={setting.value} is not in effect: batches are {widest} wide",
        severity="warn",
        places=[place for place in (setting.place, batch.place) if place],
        remedies=[Remedy(text=f'hand "{setting.name}" to what cuts or pads the rows')],
    )


def _cut(case: Case, batch: BatchFacts) -> Finding | None:
    if batch.truncated is None or batch.truncated < CUT:
        return None
    many = MOST if _is_named(case, max(batch.widths)) else MANY
    return Finding(
        claim=f"{batch.truncated:.0%} of the rows fill all {max(batch.widths)} positions: what was "
        "longer is cut",
        severity="warn" if batch.truncated >= many else "note",
        known="measured",
        places=[batch.place] if batch.place else [],
        remedies=[Remedy(text="raise the maximal length, or split long rows into several")],
    )


def _is_named(case: Case, width: int) -> bool:
    """Whether the project's code, its configuration or the command line names a length itself."""
    if any(setting.value == str(width) for setting in requested(case, LENGTH)):
        return True
    return any(_limits(node, width) for _, node in parse(case.sources).nodes())


def _limits(node: ast.AST, width: int) -> bool:
    """Whether a node gives a width to what is named as a length, or cuts by it."""
    match node:
        case ast.keyword(arg=str(name), value=ast.Constant(value=int(value))):
            return value == width and _NAMED.search(name.lower()) is not None
        case ast.Assign(targets=[target], value=ast.Constant(value=int(value))):
            return value == width and _NAMED.search(ast.unparse(target).lower()) is not None
        case ast.Dict():
            return any(
                isinstance(key, ast.Constant)
                and isinstance(value, ast.Constant)
                and value.value == width
                and _NAMED.search(str(key.value).lower())
                for key, value in zip(node.keys, node.values, strict=True)
            )
        case ast.Slice(upper=ast.Constant(value=int(value))):
            return value == width
    return False


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    rows = None if planned.data is None else planned.data.rows
    share = 0.0 if rows is None else rows.cut / max(1, rows.cut + rows.tokens)
    if rows is None or share < TOKENS_NOTE:
        return None
    return Finding(
        claim=f"{rows.cut:,} of the tokens to train on ({share:.0%}) are cut off: their rows are "
        f"longer than data.max_length={rows.max_length}",
        severity="warn" if share >= TOKENS_WARN else "note",
        remedies=[
            Remedy(text="raise data.max_length as far as memory and the model's positions allow")
        ],
    )


RULE = Rule(
    title="The length of the rows is not what was asked for",
    judge=judge,
    needs=(Needs.BATCHES,),
    before_run=_before_run,
    kind="correctness",
    known="proved",
)
