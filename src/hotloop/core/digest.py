"""The fingerprint that names and checks what hotloop keeps: xxh3-128 in hex."""

from __future__ import annotations

import xxhash

__all__ = ["Buffer", "digest"]

Buffer = bytes | bytearray | memoryview


def digest(*parts: Buffer | str) -> str:
    """Return the xxh3-128 of the parts in hex: a fingerprint, not a protection against malice."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part.encode() if isinstance(part, str) else part)
    return state.hexdigest()
