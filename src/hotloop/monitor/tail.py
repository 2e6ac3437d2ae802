"""Follows the event file of a run from its end: days of steps are never read again."""

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

BYTES = 256 * 1024  # of the end that is read first: some 900 steps
KEEP, OTHERS = 600, 100  # newest events, and older ones that are rare: sessions, validations, saves
OFTEN = ("step", "reading")


class Tail:
    """The newest events of a file that may grow, may be torn at its end, and may not be there yet.

    `bytes` is how much of the end is read at first; `now` is a seam: the time of file stamps.
    """

    def __init__(
        self, path: Path, *, bytes: int = BYTES, now: Callable[[], float] = time.time
    ) -> None:
        self._path, self._bytes, self._now = path, bytes, now
        self._at = -1  # where the next line begins; -1: nothing was read yet
        self.events: list[Event] = []  # that still count, oldest first
        self.skipped: str | None = None  # the newest line that is no event, in words
        self.silent: float | None = None  # seconds since the file was written; None: no file

    def read(self) -> None:
        """Take in what was written since. DataError when it is no event file."""
        try:
            stat = self._path.stat()
            with self._path.open("rb") as stream:
                if not 0 <= self._at <= stat.st_size:
                    self.events, self._at = [], _line_from(stream, stat.st_size - self._bytes)
                stream.seek(self._at)
                data = stream.read()
        except FileNotFoundError:
            self.silent = None
            return
        except OSError as error:
            raise DataError(f"cannot read {self._path}: {error.strerror or error}") from error
        self.silent = max(0.0, self._now() - stat.st_mtime)
        whole = data[: data.rfind(b"\n") + 1]  # the rest is torn: the run is alive, or died there
        place = f"{self._path}, after byte {self._at}"
        new = list(read_lines(whole.splitlines(), place))
        skipped = [str(event["text"]) for event in new if "skipped" in event]
        if skipped and len(skipped) == len(new) and not self.events:
            raise DataError(skipped[0])  # not one line is an event
        self.skipped = skipped[-1] if skipped else self.skipped
        self._at += len(whole)
        if new:
            known = surviving([*self.events, *new])
            rare = [event for event in known[:-KEEP] if event["kind"] not in OFTEN]
            self.events = rare[-OTHERS:] + known[-KEEP:]


def _line_from(stream: BinaryIO, start: int) -> int:
    """Return where the first whole line at or after `start` begins."""
    if start <= 0:
        return 0
    stream.seek(start - 1)
    return start - 1 + len(stream.readline())
