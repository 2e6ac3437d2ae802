"""Messages between a process and its workers: a JSON head and raw buffers, through a pipe."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

__all__ = ["opened", "packed", "receive", "send"]

_SIZE = struct.Struct("<Q")


def send(stream: IO[bytes], head: Mapping[str, Any], *buffers: bytes | memoryview) -> None:
    """Write one message whole."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = json.dumps({"head": head, "sizes": sizes}).encode()
    stream.write(_SIZE.pack(len(text)) + text)
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """Return the next message; None where the other side has gone."""
    size = stream.read(_SIZE.size)
    if len(size) < _SIZE.size:
        return None
    text = stream.read(_SIZE.unpack(size)[0])
    try:
        told = json.loads(text)
    except ValueError:  # half of one: the other side went while it wrote
        return None
    buffers = [stream.read(size) for size in told["sizes"]]
    is_whole = all(len(data) == size for data, size in zip(buffers, told["sizes"], strict=True))
    return (told["head"], buffers) if is_whole else None


def packed(head: Mapping[str, Any], *buffers: bytes | memoryview) -> memoryview:
    """Return the bytes that `send` writes."""
    stream = io.BytesIO()
    send(stream, head, *buffers)
    return stream.getbuffer()


def opened(message: bytes | memoryview) -> tuple[dict[str, Any], list[bytes]]:
    """Return the message whose bytes these are."""
    found = receive(io.BytesIO(message))
    assert found is not None, "a message is kept whole"
    return found
