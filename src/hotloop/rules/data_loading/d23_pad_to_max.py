"""Every batch has the full width, whatever its longest row.

Looks at: width and real lengths of sampled training batches, and the code that pads. An experiment
    makes the model's calls on rows that are cut to that length.
Says so when: all batches are equally wide, rows fill less than 60 % of it on average, and the width
    above each batch's longest row is 2 % of the wall time or more.
Stays silent when: the longest row of a batch nearly fills it (D22).
Remedy: pad to the batch's longest row, on a GPU to a multiple of 8.
Numbers: rounding, where padding is masked; where it is not, results change.
Seen: examples/slow/accelerate/pad_to_max.py, examples/blind/polarity_attention.
Source: TECHNIQUES (one real set: 1.04x by this alone, 2.36x with length buckets); 60 % is ours.
"""

from __future__ import annotations

import ast
import re
import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN
from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit, option
from hotloop.rules.support.data_wait import costs, feeding, place_of
from hotloop.rules.support.syntax import dotted, parse

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["RULE"]

FILLED = 0.60
CUT = [
    option("cut each batch to its longest row, by its attention_mask", technique="dynamic-padding")
]
MADE = (
    "full",
    "zeros",
    "ones",
    "new_full",
    "new_zeros",
)  # constructors of a tensor that is then filled row by row
LIMITS = re.compile(r"max_?(len|seq|tokens|length)|(seq|block|pad)_?(len|size|length)|maxlen")
COMPUTE = ("host to device", "forward", "backward")


def judge(case: Case) -> Finding | None:
    """Compare the width with the longest row of each batch."""
    for batch in case.batches:
        if batch.role != "train" or len(set(batch.widths)) != 1 or len(batch.widths) < 2:
            continue
        width, mean = batch.widths[0], statistics.fmean(batch.lengths or (batch.widths[0],))
        seconds = _saved(case, batch) * sum(map(case.row, COMPUTE))
        if mean >= FILLED * width or case.part(seconds) < ABSTAIN:
            continue
        return costs(
            case,
            f"every row is padded to {width} tokens and holds {mean:.0f} on average",
            seconds,
            places=_padding(case) or ([batch.place] if batch.place else place_of(feeding(case))),
            evidence={"above a batch's longest row": f"{batch.above_longest:.0%} of the width"},
            remedies=[
                *(CUT if any("attention_mask" in name for name in batch.shapes) else []),
                code_edit(
                    "pad in collate_fn: torch.nn.utils.rnn.pad_sequence(rows, "
                    "batch_first=True), or padding='longest' in the tokenizer's call"
                ),
            ],
        )
    return None


def _saved(case: Case, batch: BatchFacts) -> float:
    """Return an upper bound of the share of the computation that shorter rows save.

    The cost of attention grows with the square of the width: the bound of models that have it.
    """
    left = 1 - batch.above_longest
    return 1 - (left**2 if any(model.attention for model in case.models) else left)


def _padding(case: Case) -> list[SourceLocation]:
    """Return the first line that pads to a given length."""
    for module, node in parse(case.sources).nodes():
        if _pads(node):
            return [module.place(node)]
    return []


def _pads(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # [0] * (limit - len(ids))
        return any(map(_missing, (node.left, node.right)))
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func).rpartition(".")[2]
    if name == "pad":  # F.pad(ids, (0, limit - len(ids)))
        return any(_missing(part) for argument in node.args for part in ast.walk(argument))
    if name in MADE:  # torch.full((len(rows), max_length), pad)
        first = node.args[0] if node.args else None
        sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else node.args
        return len(sizes) > 1 and bool(LIMITS.search(ast.unparse(sizes[1]).lower()))
    return any(
        word.arg == "padding"
        and isinstance(word.value, ast.Constant)
        and word.value.value == "max_length"
        for word in node.keywords
    )


def _missing(node: ast.AST) -> bool:
    """Whether a node is a limit minus a length: limit - len(ids)."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return False
    right = ast.unparse(node.right)
    return right.startswith("len(") or ".size(" in right or ".shape[" in right


RULE = Rule(
    title="Rows are padded to the model's length",
    judge=judge,
    needs=(Needs.STEPS, Needs.BATCHES),
    under="D22",
    weight=3,
    numerics="rounding",
    experiment="cut to the longest row",
)
