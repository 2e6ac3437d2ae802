"""How much padding there would be: what decides whether rows are padded or stand in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_PADDING", "padding_share"]

# On 2 cores, padded against flat: 1.1 to 1.2 times as fast with 1 to 14 % padding, 0.9 with 24 %.
MOST_PADDING: Final = 0.15


def padding_share(
    lengths: NDArray[np.integer], size: int, *, is_alike: bool, round_to: int
) -> float:
    """Return the share of padding in batches of `size` rows, of like length or as they come.

    Widths are multiples of `round_to`.
    """
    if is_alike:
        lengths = np.sort(lengths)
    firsts = np.arange(0, len(lengths), size)
    counts = np.diff(firsts, append=len(lengths))
    widest = np.maximum.reduceat(lengths, firsts).astype(np.int64)
    slots = (-(-widest // round_to) * round_to * counts).sum()
    return 1 - float(lengths.sum(dtype=np.int64) / slots)
