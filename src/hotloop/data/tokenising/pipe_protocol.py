"""Send messages between a process and its workers through a pipe: a JSON head and raw buffers."""

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
    """Write one whole message."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = json.dumps({"head": head, "sizes": sizes}).encode()
    stream.write(_SIZE.pack(len(text)) + text)
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """Return the next message; None if the other side has closed the pipe."""
    size = stream.read(_SIZE.size)
    if len(size) < _SIZE.size:
        return None
    text = stream.read(_SIZE.unpack(size)[0])
    try:
        header = json.loads(text)
    except ValueError:  # half a message: the other side ended while it wrote
        return None
    buffers = [stream.read(size) for size in header["sizes"]]
    is_whole = all(len(data) == size for data, size in zip(buffers, header["sizes"], strict=True))
    return (header["head"], buffers) if is_whole else None


def packed(head: Mapping[str, Any], *buffers: bytes | memoryview) -> memoryview:
    """Return the bytes that `send` writes."""
    stream = io.BytesIO()
    send(stream, head, *buffers)
    return stream.getbuffer()


def opened(message: bytes | memoryview) -> tuple[dict[str, Any], list[bytes]]:
    """Return the message in the bytes that `packed` made."""
    parsed = receive(io.BytesIO(message))
    assert parsed is not None, "a message is kept whole"
    return parsed
