"""Find the commas between the elements of a JSON list by brackets and quotes, without parsing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["scan"]

_OPEN, _CLOSE, _COMMA, _QUOTE = 1, -1, 2, 3
_KINDS = bytes(
    {**dict.fromkeys(b"[{", _OPEN), **dict.fromkeys(b"]}", _CLOSE & 0xFF), 44: _COMMA, 34: _QUOTE}
    .get(byte, 0)
    for byte in range(256)
)  # fmt: skip


def scan(data: bytes) -> tuple[NDArray[np.int64], int]:
    """Return the positions of commas between elements, and of the list's end (-1: not in it)."""
    if b"\\" in data:  # from the left, each backslash escapes the backslash or quote after it
        data = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    kinds = np.frombuffer(data.translate(_KINDS), dtype=np.int8)
    positions = np.flatnonzero(kinds != 0)
    kinds = kinds[positions]
    quotes = kinds == _QUOTE
    outside = (np.cumsum(quotes) & 1 == 0) & ~quotes
    positions, kinds = positions[outside], kinds[outside]
    depth = np.cumsum(np.where(kinds == _COMMA, 0, kinds))
    commas = positions[(kinds == _COMMA) & (depth == 0)]
    closed = np.flatnonzero(depth < 0)[:1]
    if not closed.size:
        return commas, -1
    close = int(positions[closed[0]])
    return commas[commas < close], close
