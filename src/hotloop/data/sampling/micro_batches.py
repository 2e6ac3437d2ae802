"""Cuts an optimizer step's rows into micro batches by their tokens, not by their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.data.sampling.padded_widths import rounded_up

if TYPE_CHECKING:
    from hotloop.data.sampling.token_rows import TokenRows

__all__ = ["by_tokens"]


def by_tokens(
    samples: TokenRows, epoch: int, first: int, count: int, micro_batch: int
) -> list[tuple[int, int]]:
    """Return (first sample, count) of micro batches that take no more than the longest rows would.

    A micro batch holds as many tokens (padding included, where rows are padded) as `micro_batch`
    rows of the split's longest, and at least one row. So what memory allows of the longest rows,
    and what was forecast or tuned for them, is used whatever the rows are; a
    `session.MicroBatchCut`.
    """
    is_flat = samples.form.layout == "flat"
    multiple = 1 if is_flat else samples.form.round_to
    budget = micro_batch * rounded_up(samples.longest, multiple)
    spans: list[tuple[int, int]] = []
    begin, taken, widest = first, 0, 0
    lengths = samples.lengths[samples.ids(epoch, first, count)].tolist()
    for at, length in enumerate(lengths, first):
        wider = max(widest, rounded_up(length, multiple))
        slots = taken + length if is_flat else wider * (at + 1 - begin)
        if slots > budget:
            spans.append((begin, at - begin))
            begin, taken, wider = at, 0, rounded_up(length, multiple)
        taken, widest = taken + length, wider
    return [*spans, (begin, first + count - begin)]
