"""The model computes on padding.

Looks at: the share of padding in sampled training batches, and the time of forward and backward.
Says so when: 20 % of the positions are padding, and their part of the time is 2 % or more.
Stays silent when: rows have one length, or several are packed into one.
Remedy: batches of rows of similar length, or packed rows.
Numbers: the order of the samples changes; packing changes what a batch is as well.
Seen: examples/slow/accelerate/pad_to_max.py, examples/blind/polarity_attention.
Source: Hugging Face's group_by_length for the remedy; hotloop for the thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, Remedy
from hotloop.judging.waiting import costs, feeding, place_of
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

WASTE = 0.20
COMPUTE = ("host to device", "forward", "backward")


def judge(case: Case) -> Finding | None:
    """Take the share of padding as the share of the computing."""
    padded = max(
        (batch for batch in case.batches if batch.role == "train" and batch.padding),
        key=lambda batch: batch.padding or 0.0,
        default=None,
    )
    if padded is None or padded.padding is None or padded.padding < WASTE:
        return None
    seconds = padded.padding * sum(map(case.row, COMPUTE))
    if case.part(seconds) < ABSTAIN:
        return None
    lengths = sorted(padded.lengths)
    return costs(
        case,
        RULE.label,
        f"{padded.padding:.0%} of what the model computes on is padding",
        seconds,
        places=[padded.place] if padded.place else place_of(feeding(case)),
        evidence={"median row": f"{lengths[len(lengths) // 2]} of {max(padded.widths)} tokens"}
        if lengths and padded.widths
        else {},
        remedies=[
            Remedy(
                text="batches of similar length: sort each 50 batches' worth of shuffled indices "
                "by length in a batch_sampler",
                effort="code edit",
            ),
            Remedy(
                text="pack several rows into one, with a mask that keeps them apart",
                effort="code edit",
            ),
        ],
    )


RULE = Rule(
    id="D22",
    name="pad_waste",
    title="Much of each batch is padding",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.BATCHES),
    weight=1,
    numerics="training",
)
