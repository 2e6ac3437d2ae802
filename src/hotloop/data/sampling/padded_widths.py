"""Round lengths up to padded widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MULTIPLE", "padded", "rounded_up"]

MULTIPLE = 8  # columns; fast for matrix units (techniques/dynamic_padding.py)


def rounded_up(length: int, multiple: int) -> int:
    """Return the smallest multiple that is not less than a length."""
    return -(-length // multiple) * multiple


def padded(lengths: NDArray[np.integer[Any]], multiple: int = MULTIPLE) -> NDArray[np.int64]:
    """Return lengths rounded up to a multiple, [samples].

    The multiple should divide the number of positions of the model, or a width may exceed it.
    Raises DataError if there is no sample or one is empty.
    """
    assert multiple > 0, multiple
    if not len(lengths):
        raise DataError("expected samples, got none; check the files and filters of the data")
    if lengths.min() < 1:
        index = lengths.argmin()
        raise DataError(
            f"sample {index} has {lengths[index]} tokens, but 1 or more are needed; leave out "
            "empty samples"
        )
    return -(-lengths.astype(np.int64, copy=False) // multiple) * multiple
