"""A process that turns portions into tokens, fed through a pipe.

It runs as python -m hotloop.data.tokenising.worker_process. It ends when its parent does, because
its standard input then ends.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError, HotloopError
from hotloop.data.readers.portions import Portion
from hotloop.data.tokenising.encode import Encoded, fast_backend
from hotloop.data.tokenising.pipe_protocol import receive, send
from hotloop.data.tokenising.row_shapes import Text
from hotloop.data.tokenising.tokenize_portion import Setup, Turned, Turner
from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from numpy.typing import NDArray

__all__ = ["TokenizerWorker", "look", "main", "pack", "portion_of", "question", "result", "unpack"]

_AHEAD = 2  # portions that are prefetched while one is turned


def pack(turned: Turned) -> tuple[dict[str, Any], list[memoryview]]:
    """Return a message with the result of a portion."""
    encoded = turned.encoded
    head = {
        "columns": list(encoded.columns),
        "words": turned.words,
        "faults": turned.faults,
        "rows": turned.rows,
        "bytes": turned.bytes,
    }
    arrays: list[NDArray[Any]] = [encoded.ids, encoded.lengths, *encoded.columns.values()]
    return head, [array.data.cast("B") if array.size else memoryview(b"") for array in arrays]


def unpack(head: dict[str, Any], buffers: list[bytes]) -> Turned:
    """Return the result in a message of `pack`."""
    columns = {
        name: np.frombuffer(data, np.uint8)
        for name, data in zip(head["columns"], buffers[2:], strict=True)
    }
    ids, lengths = np.frombuffer(buffers[0], np.uint32), np.frombuffer(buffers[1], np.int64)
    return Turned(
        encoded=Encoded(ids=ids, lengths=lengths, columns=columns),
        words=head["words"],
        faults=head["faults"],
        rows=head["rows"],
        bytes=head["bytes"],
    )


def question(portion: Portion, *, only_look: bool = False) -> tuple[dict[str, Any], list[bytes]]:
    """Return a message that requests the result of a portion."""
    values = asdict(portion)
    return {"portion": values, "only_look": only_look}, [values.pop("data")]


def portion_of(head: Mapping[str, Any], buffers: list[bytes]) -> Portion:
    """Return the portion in a message of `question`."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in head["portion"].items()
    }
    return Portion(**values, data=buffers[0])


def result(head: dict[str, Any], buffers: list[bytes]) -> Turned:
    """Return the result of a portion in an answer; raises DataError or HotloopError for errors."""
    if "error" in head:
        raise DataError(head["error"])
    if "failed" in head:
        raise HotloopError(f"a worker process failed: {head['failed'].splitlines()[-1]}")
    return unpack(head, buffers)


class TokenizerWorker:
    """Answer each question with a message; set up at the first one."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._setup = setup
        self._turner: Turner | None = None

    def to(
        self, head: Mapping[str, Any], buffers: list[bytes]
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Return the answer; an error is an answer, too."""
        try:
            self._turner = self._turner or Turner(Setup.from_plain(self._setup))
            portion = portion_of(head, buffers)
            return pack(self._turner.turn(portion, only_look=head["only_look"]))
        except HotloopError as error:
            return {"error": str(error)}, []
        except Exception:  # noqa: BLE001 - reported to the parent, which ends
            failed = traceback.format_exc()
            print(failed, file=sys.stderr)
            return {"failed": failed}, []


def main(source: IO[bytes], target: IO[bytes]) -> None:
    """Turn portions into tokens until the input ends."""
    waiting: queue.Queue[tuple[dict[str, Any], list[bytes]] | None] = queue.Queue(_AHEAD)

    def listen() -> None:  # reads on, so that the parent never blocks while it sends
        while (message := receive(source)) is not None:
            waiting.put(message)
        waiting.put(None)

    first_message = receive(source)
    if first_message is None:
        return
    threading.Thread(target=listen, daemon=True).start()
    answers = TokenizerWorker(first_message[0])
    while (message := waiting.get()) is not None:
        reply, buffers = answers.to(*message)
        send(target, reply, *buffers)


def look(source: IO[bytes], target: IO[bytes]) -> None:
    """Choose the right back end for a sample, in a process of its own: comparing takes 150 MB."""
    message = receive(source)
    assert message is not None, "the parent asks before it waits"
    request = message[0]
    texts = [Text(**text) for text in request["texts"]]
    try:
        choice = fast_backend(
            request["wanted"], TokenizerSpec.from_plain(request["vocabulary"]), texts
        )
    except HotloopError as error:
        send(target, {"error": str(error), "kind": type(error).__name__})
    else:
        send(target, {"found": choice})


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    run = look if "--look" in sys.argv else main
    run(sys.stdin.buffer, sys.stdout.buffer)
