"""Locate each tensor of a .safetensors file by its header, which is checked, without torch.

Source: https://github.com/huggingface/safetensors#format (2026-11)
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BYTES", "StoredTensor", "stored"]

# Bytes of an element. Packed and quantised dtypes are not read.
BYTES: Final = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
_LONGEST = 100_000_000  # bytes of a header: the limit of the library safetensors
_AGAIN = "the download was cut short or the file is damaged: fetch it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor in a file."""

    path: Path
    dtype: str  # a key of BYTES
    shape: tuple[int, ...]
    start: int  # byte offset in the file
    bytes: int


def stored(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by name. Raises DataError if the file is damaged."""
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST):
                raise DataError(f"{path} ({size} bytes) is no safetensors file: {_AGAIN}")
            header = stream.read(length)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        header_entries = json.loads(header, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} has a header that is not JSON ({error}): {_AGAIN}") from error
    if not isinstance(header_entries, dict):
        raise DataError(f"{path} has a header that holds no names: {_AGAIN}")
    header_entries.pop("__metadata__", None)
    return {
        name: _tensor(path, name, entry, 8 + length, size) for name, entry in header_entries.items()
    }


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _tensor(path: Path, name: str, entry: Any, data: int, size: int) -> StoredTensor:
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, place = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if isinstance(dtype, str) and dtype not in BYTES:
        raise DataError(
            f"{path}: {name} is stored as {dtype}; hotloop reads {', '.join(BYTES)}: take the "
            "weights before they were quantised"
        )
    if not (isinstance(dtype, str) and _is_counts(shape) and _is_counts(place, 2)):
        raise DataError(f"{path}: {name} has no dtype, shape and place: {_AGAIN}")
    begin, end = place
    if end > size - data:
        raise DataError(f"{path}: {name} ends behind the file's {size} bytes: {_AGAIN}")
    if end - begin != math.prod(shape) * BYTES[dtype]:
        raise DataError(f"{path}: {name} has {end - begin} bytes for {dtype} {shape}: {_AGAIN}")
    return StoredTensor(
        path=path, dtype=dtype, shape=tuple(shape), start=data + begin, bytes=end - begin
    )


def _is_counts(value: object, length: int | None = None) -> bool:
    counts = isinstance(value, list) and all(type(count) is int and count >= 0 for count in value)
    return counts and length in (None, len(value))  # type: ignore[arg-type]
