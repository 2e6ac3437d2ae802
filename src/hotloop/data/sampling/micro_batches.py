"""Cut an optimizer step's rows into micro batches by their tokens, not by their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.data.sampling.padded_widths import rounded_up

if TYPE_CHECKING:
    from hotloop.data.sampling.token_rows import TokenRows

__all__ = ["by_tokens"]


def by_tokens(
    samples: TokenRows, epoch: int, first: int, count: int, micro_batch: int
) -> list[tuple[int, int]]:
    """Return (first sample, count) of micro batches that need no more tokens than the longest rows.

    A micro batch holds at most as many tokens (with padding, if rows are padded) as `micro_batch`
    rows of the split's longest, and at least one row. So the memory that was forecast or tuned for
    the longest rows is used for shorter rows, too. This is a `session.MicroBatchCut`.
    """
    is_flat = samples.form.layout == "flat"
    multiple = 1 if is_flat else samples.form.round_to
    budget = micro_batch * rounded_up(samples.longest, multiple)
    spans: list[tuple[int, int]] = []
    begin, tokens, widest = first, 0, 0
    lengths = samples.lengths[samples.ids(epoch, first, count)].tolist()
    for index, length in enumerate(lengths, first):
        wider = max(widest, rounded_up(length, multiple))
        slots = tokens + length if is_flat else wider * (index + 1 - begin)
        if slots > budget:
            spans.append((begin, index - begin))
            begin, tokens, wider = index, 0, rounded_up(length, multiple)
        tokens, widest = tokens + length, wider
    return [*spans, (begin, first + count - begin)]
