"""The model computes on padding.

Looks at: the share of padding in sampled training batches, and the time of forward and backward. An
    experiment makes the model's calls on rows that are shorter by that share.
Says so when: 20 % of the positions are padding, and their part of the time is 2 % or more. Before a
    run: 5 % of what the first steps would compute is padding.
Stays silent when: rows have one length, or several are packed into one.
Remedy: batches of rows of similar length (length-bucketing), of like numbers of tokens where the
    loss is one over tokens (token-budget), or packed rows.
Numbers: the order of the samples changes, which may cost a language model some loss
    (docs/defaults.md); packing changes what a batch is as well.
Seen: examples/slow/accelerate/pad_to_max.py, examples/blind/polarity_attention.
Source: Hugging Face's group_by_length for the remedy; hotloop for the thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, by_share
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit, option
from hotloop.rules.support.data_wait import costs, feeding, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.steps_and_loaders import BatchFacts
    from hotloop.core.finding import SourceLocation

__all__ = ["RULE"]

WASTE = 0.20
FORECAST = 0.05  # of the computation of a planned run's first steps
COMPUTE = ("host to device", "forward", "backward")
PACK = "pack several rows into one, with a mask that keeps them apart"
MADE = "; hotloop data tokenize --pack makes such rows"
RANDOM = ("RandomSampler", "SeedableRandomSampler", "SubsetRandomSampler")  # a random order


def judge(case: Case) -> Finding | None:
    """Take the share of padding as the share of wasted computation."""
    padded = max(
        (batch for batch in case.batches if batch.role == "train" and batch.padding),
        key=lambda batch: batch.padding or 0.0,
        default=None,
    )
    if padded is None or padded.padding is None or padded.padding < WASTE:
        return None
    seconds = padded.padding * case.computing(*COMPUTE)
    if case.part(seconds) < ABSTAIN:
        return None
    lengths = sorted(padded.lengths)
    return costs(
        case,
        f"{padded.padding:.0%} of what the model computes on is padding",
        seconds,
        places=_places(case, padded),
        evidence={"median row": f"{lengths[len(lengths) // 2]} of {max(padded.widths)} tokens"}
        if lengths and padded.widths
        else {},
        remedies=[
            *_bucketed(case, padded),
            code_edit(
                "batches of similar length: sort each 50 batches' worth of shuffled indices "
                "by length in a batch_sampler"
            ),
            code_edit(PACK + MADE * _is_per_token(padded)),
        ],
    )


def _places(case: Case, batch: BatchFacts) -> list[SourceLocation]:
    """Return where the rows are padded, and where the loader is built that puts them together."""
    loader = next((one for one in case.training_loaders if one.key == batch.loader), feeding(case))
    return list(dict.fromkeys([*([batch.place] if batch.place else []), *place_of(loader)]))


def _bucketed(case: Case, batch: BatchFacts) -> Iterator[Remedy]:
    """Yield the techniques that make such batches, unless they would be refused."""
    loader = next(
        (candidate for candidate in case.training_loaders if candidate.key == batch.loader), None
    )
    if loader is None or loader.sampler not in RANDOM or loader.iterable:
        return
    if (loader.batch_size or 0) < 2 or (loader.batches or 2) < 2:
        return
    if len(set(batch.widths)) < 2 and not any("attention_mask" in name for name in batch.shapes):
        return  # the script pads to one width, and the batch has no mask to cut it by
    if {"length-bucketing", "token-budget", "vectorised-reads"} & case.techniques.keys():
        return
    yield option("batches of rows of similar length", technique="length-bucketing")
    if _is_per_token(batch) and not loader.drop_last:
        yield option(
            "batches of about as many tokens each, of few long rows or many short ones",
            technique="token-budget",
        )


def _is_per_token(batch: BatchFacts) -> bool:
    """Whether the loss is per token, judged by the labels; True if they are unknown."""
    shape = batch.shapes.get(batch.label or "")
    width = batch.widths[0] if batch.widths else 0
    return shape is None or (len(shape) == 2 and abs(shape[1] - width) <= 1)


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    data = planned.data
    if data is None or data.rows is None:
        return None
    padding = data.rows.padding
    if padding is None or padding.share < FORECAST:
        return None
    remedy = f"{'data.packing=false ' * padding.packed}data.layout=flat computes none"
    if data.kind == "tasks":
        remedy = "smaller micro batches (training.accumulation) hold rows of more like length"
    return Finding(
        claim=f"{padding.share:.0%} of what the model computes on is padding",
        severity=by_share(padding.share),
        evidence={"median row": f"{padding.median} of up to {padding.longest} tokens"},
        remedies=[Remedy(text=remedy)],
    )


RULE = Rule(
    title="Much of each batch is padding",
    judge=judge,
    needs=(Needs.STEPS, Needs.BATCHES),
    before_run=_before_run,
    numerics="training",
    experiment="cut rows",
)
