"""Follows the event file of a run from its end, without reading old steps again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, BinaryIO

from hotloop.core.errors import DataError
from hotloop.core.events import read_lines, surviving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hotloop.core.events import Event

__all__ = ["Tail"]

BYTES = 256 * 1024  # read from the end at first: about 900 steps
KEEP, OTHERS = 600, 100  # newest events, and older ones that are rare: sessions, validations, saves
OFTEN = ("step", "reading")


class Tail:
    """The newest events of a file that may grow, end with a partial line, or not exist yet.

    `bytes` are read from the end at first. `now` is a seam: the clock of file times.
    """

    def __init__(
        self, path: Path, *, bytes: int = BYTES, now: Callable[[], float] = time.time
    ) -> None:
        self._path, self._bytes, self._now = path, bytes, now
        self._offset = -1  # offset of the next line; -1: nothing was read yet
        self.events: list[Event] = []  # not superseded, oldest first
        self.skipped: str | None = None  # the newest line that is not an event, in words
        self.silent: float | None = None  # seconds since the file was written; None: no file

    def read(self) -> None:
        """Read the events written since the last call. DataError if it is not an event file."""
        try:
            stat = self._path.stat()
            with self._path.open("rb") as stream:
                if not 0 <= self._offset <= stat.st_size:
                    self.events, self._offset = [], _line_from(stream, stat.st_size - self._bytes)
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            self.silent = None
            return
        except OSError as error:
            raise DataError(f"cannot read {self._path}: {error.strerror or error}") from error
        self.silent = max(0.0, self._now() - stat.st_mtime)
        whole = data[
            : data.rfind(b"\n") + 1
        ]  # the rest is a partial line: the run is alive, or died there
        place = f"{self._path}, after byte {self._offset}"
        new = list(read_lines(whole.splitlines(), place))
        skipped = [str(event["text"]) for event in new if "skipped" in event]
        if skipped and len(skipped) == len(new) and not self.events:
            raise DataError(skipped[0])  # not one line is an event
        self.skipped = skipped[-1] if skipped else self.skipped
        self._offset += len(whole)
        if new:
            known = surviving([*self.events, *new])
            rare = [event for event in known[:-KEEP] if event["kind"] not in OFTEN]
            self.events = rare[-OTHERS:] + known[-KEEP:]


def _line_from(stream: BinaryIO, start: int) -> int:
    """Return the offset of the first whole line at or after `start`."""
    if start <= 0:
        return 0
    stream.seek(start - 1)
    return start - 1 + len(stream.readline())
