"""Every batch has the full width, whatever its longest row.

Looks at: width and real lengths of the inputs and of the labels in sampled training batches, and
    the code that pads. An experiment makes the model's calls on rows that are cut to that length.
Says so when: all batches are equally wide, rows fill less than 60 % of it on average, and the width
    above each batch's longest row is 2 % of the wall time or more.
Stays silent when: the longest row of a batch nearly fills it (D22).
Remedy: pad to the batch's longest row, on a GPU to a multiple of 8.
Numbers: rounding, where padding is masked; where it is not, results change.
Seen: examples/slow/accelerate/pad_to_max.py, examples/blind/polarity_attention.
Source: TECHNIQUES (one real set: 1.04x by this alone, 2.36x with length buckets); 60 % is ours.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit, option
from hotloop.rules.support.data_wait import costs, feeding, place_of
from hotloop.rules.support.padding_lines import padding_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.steps_and_loaders import BatchFacts, RowLengths

__all__ = ["RULE"]

FILLED = 0.60
CUT = [
    option("cut each batch to its longest row, by its attention_mask", technique="dynamic-padding")
]
COMPUTE = ("host to device", "forward", "backward")


def judge(case: Case) -> Finding | None:
    """Compare the width with the longest row of each batch."""
    for batch, rows in _training(case):
        if len(set(rows.widths)) != 1 or len(rows.widths) < 2:
            continue
        width, mean = rows.widths[0], statistics.fmean(rows.lengths or (rows.widths[0],))
        seconds = _saved(case, rows.above_longest) * case.computing(*COMPUTE)
        if mean >= FILLED * width or case.part(seconds) < ABSTAIN:
            continue
        is_input = rows is batch
        what = "row" if is_input else f"row of {batch.label}"
        has_mask = is_input and any("attention_mask" in name for name in batch.shapes)
        return costs(
            case,
            f"every {what} is padded to {width} tokens and holds {mean:.0f} on average",
            seconds,
            places=padding_lines(case)
            or ([batch.place] if batch.place else place_of(feeding(case))),
            evidence={"above a batch's longest row": f"{rows.above_longest:.0%} of the width"},
            remedies=[
                *(CUT if has_mask else []),
                code_edit(
                    "pad in collate_fn: torch.nn.utils.rnn.pad_sequence(rows, "
                    "batch_first=True), or padding='longest' in the tokenizer's call"
                ),
            ],
        )
    return None


def _training(case: Case) -> Iterator[tuple[BatchFacts, BatchFacts | RowLengths]]:
    """Yield the batches of the training with the rows of their inputs, then of their labels."""
    batches = [batch for batch in case.batches if batch.role == "train"]
    yield from ((batch, batch) for batch in batches)
    yield from ((batch, batch.targets) for batch in batches if batch.targets is not None)


def _saved(case: Case, above_longest: float) -> float:
    """Return an upper bound of the share of the computation that shorter rows save.

    The cost of attention grows with the square of the width: the bound of models that have it.
    """
    left = 1 - above_longest
    return 1 - (left**2 if any(model.attention for model in case.models) else left)


RULE = Rule(
    title="Rows are padded to the model's length",
    judge=judge,
    needs=(Needs.STEPS, Needs.BATCHES),
    under="D22",
    weight=3,
    numerics="rounding",
    experiment="cut to the longest row",
)
