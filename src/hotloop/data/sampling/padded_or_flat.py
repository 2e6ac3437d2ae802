"""Estimate the share of padding, which decides between padded rows and one flat row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.padded_widths import rounded_up

if TYPE_CHECKING:
    from hotloop.data.sampling.token_rows import TokenRows

__all__ = ["MOST_PADDING", "padding_share"]

# On 2 cores, padded is 1.1 to 1.2 times as fast as flat with 1 to 14 % padding, 0.9 with 24 %.
MOST_PADDING: Final = 0.15
_LOOKED_AT: Final = 200  # optimizer steps of the sample


def padding_share(rows: TokenRows, *, batch: int, micro: int) -> float:
    """Return the share of padding in an epoch of padded rows, with the micro batches of a run.

    `batch` rows make an optimizer step; a micro batch has room for `micro` of the longest rows. Of
    many steps an evenly spread sample is counted.
    """
    firsts = range(0, len(rows), batch)
    slots = tokens = 0
    for first in firsts[:: max(1, len(firsts) // _LOOKED_AT)]:
        count = min(batch, len(rows) - first)
        for begin, number in by_tokens(rows, 0, first, count, micro):
            lengths = rows.lengths[rows.ids(0, begin, number)]
            slots += number * rounded_up(int(lengths.max()), rows.form.round_to)
            tokens += int(lengths.sum())
    return 1 - tokens / slots
