"""Send messages between a process and its workers through a pipe: a JSON head and raw buffers."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

__all__ = ["THREADS", "Child", "opened", "packed", "receive", "send"]

# With threads in each worker, their number would be the square of the workers'.
THREADS: Final = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
_SIZE = struct.Struct("<Q")


class Child:
    """A process that runs a module of this package and is fed through a pipe."""

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:
        """Start it; `options` are those of Popen."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout

    def send(self, head: Mapping[str, Any], *buffers: bytes | memoryview) -> None:
        """Send a message. Raises BrokenPipeError if the process is gone."""
        send(self._to, head, *buffers)

    def receive(self) -> tuple[dict[str, Any], list[bytes]] | None:
        """Return the next message; None if the process is gone."""
        return receive(self._from)

    def ended(self) -> str:
        """Wait for the end of the process, and return how it ended, in words."""
        code = self.process.wait()
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def close_pipes(self) -> None:
        """Close both pipes, which ends a process that waits for messages."""
        for stream in (self._to, self._from):
            with suppress(BrokenPipeError):
                stream.close()


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
