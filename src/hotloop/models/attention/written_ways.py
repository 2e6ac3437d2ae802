"""Ways to attend on a CPU that hold all scores: which of them a call may take.

Dims: B rows, H heads, T positions, K head width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from hotloop.models.attention.documents import computed_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

__all__ = ["WRITTEN_OUT", "ways_for", "words_for"]

WRITTEN_OUT: Final[Mapping[str, int]] = {"products": 4, "low": 2}  # bytes of a score
# Bytes of scores for each layer. Not counted is dropout, which keeps as many numbers again for the
# backward pass.
_MOST: Final = 1 << 24
_WORDS: Final[Mapping[tuple[str, ...], str]] = {
    (): ", too many scores to write out",
    ("products",): "",
    ("low",): ", written out in 16 bits alone",
    ("products", "low"): ", written out in 16 bits too",
}


def ways_for(q_BHTK: Tensor, scores: int) -> tuple[str, ...]:
    """Return the ways of a CPU that may hold so many scores."""
    # float16 has no room for large scores.
    ways = WRITTEN_OUT if computed_in(q_BHTK) == torch.bfloat16 else ("products",)
    return tuple(way for way in ways if scores * WRITTEN_OUT[way] <= _MOST)


def words_for(q_BHTK: Tensor, ways: tuple[str, ...]) -> str:
    """Return what a choice among these ways adds to its key, as saved in a file."""
    return _WORDS[ways] if q_BHTK.device.type == "cpu" else ""
