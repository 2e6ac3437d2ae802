"""Sends the points of a run folder to a tracker, once or until the run has ended.

The position is saved in the run folder, so that a second call sends only new points. If the process
is killed between sending points and saving the position, the points are sent again; no point is
ever lost.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from hotloop.core.codec import from_json
from hotloop.core.errors import DataError, DeviceError
from hotloop.core.events import read_lines, surviving
from hotloop.core.storage.files import read_json, write_json
from hotloop.export.trackers.points import began, facts, points
from hotloop.export.trackers.sink import Opening

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.events import Event
    from hotloop.core.storage.rundir import RunDir
    from hotloop.export.trackers.sink import OpenSink, Sink

__all__ = ["PATIENCE", "POLL", "Cursor", "TrackerUpload", "follow"]

SCHEMA = 1  # history: 1 (2026-11) first
POLL = 2.0  # seconds between two looks at a run
PATIENCE = 15  # looks at a run without a writer; a starting run locks its folder after seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position up to which a run was sent to a tracker."""

    id: str | None = None  # the tracker's id of the run
    bytes: int = 0  # of the event file, in whole lines
    last: int = 0  # the greatest step that was sent
    began: float = 0.0  # time 0 of the last session's clock, in seconds since 1970

    @classmethod
    def read(cls, run: RunDir, to: str) -> Cursor:
        """Return the saved cursor of a run and a tracker. Raises DataError for a damaged file."""
        path = run.tracked(to)
        if not path.exists():
            return cls()
        raw = read_json(path)
        if (schema := raw.pop("schema", None)) != SCHEMA:
            raise DataError(
                f"{path} has schema {schema!r}, this version of hotloop reads {SCHEMA}; delete it "
                "to send the whole run again"
            )
        return from_json(cls, raw, place=str(path))

    def write(self, run: RunDir, to: str) -> None:
        """Save the cursor in the run folder."""
        write_json(run.tracked(to), {"schema": SCHEMA, **asdict(self)})


class TrackerUpload:
    """Sends the events of a run folder to a tracker, and remembers its position."""

    def __init__(
        self, run: RunDir, to: str, open_sink: OpenSink, *, name: str, project: str
    ) -> None:
        self._run, self._to, self._open = run, to, open_sink
        self._name, self._project = name, project
        self._cursor = Cursor.read(run, to)
        self.skipped: list[str] = []  # a sentence for each unreadable event
        self._sink: Sink | None = None  # a call with nothing to send leaves the tracker alone

    def open(self) -> Sink:
        """Begin or continue the run in the tracker. Raises DeviceError when it refuses."""
        if self._sink is None:
            self._sink = self._open(
                Opening(
                    folder=self._run.path,
                    name=self._name,
                    project=self._project,
                    facts=facts(self._run.read()),
                    id=self._cursor.id,
                    after=self._cursor.last,
                )
            )
            self._cursor = replace(self._cursor, id=self._sink.id)
            self._cursor.write(self._run, self._to)
        return self._sink

    @property
    def complete(self) -> bool:
        """Return whether the run has made its last step."""
        return self._run.read().get("status") == "complete"

    def catch_up(self) -> int:
        """Send the new points, and return their number.

        A resumed run discards the steps after its checkpoint. A tracker that cannot remove points
        gets a new run with all valid points. Raises DataError for a damaged event file, DeviceError
        when the tracker fails; the cursor then does not advance.
        """
        fresh, end = self._read()
        if not fresh:
            return 0
        resumed = min((step for e in fresh if (step := _resumed(e)) is not None), default=None)
        if resumed is not None and resumed < self._cursor.last:
            if self.open().take_back(resumed):
                self._cursor = replace(self._cursor, last=resumed)
            else:
                self._begin_again()
                fresh, end = self._read()
        start, new_points = self._cursor.began, []
        for event in surviving(fresh):
            if event["kind"] == "session":
                start = began(event) or start
            new_points += points(event, began=start)
        self.open().write(new_points)
        last = max([self._cursor.last, *(point.step for point in new_points)])
        self._cursor = replace(self._cursor, bytes=end, last=last, began=start)
        self._cursor.write(self._run, self._to)
        return len(new_points)

    def close(self) -> None:
        """Finish the run in the tracker with the status of the run, if anything was sent."""
        if self._sink is not None:
            self._sink.close(str(self._run.read().get("status")))

    def _begin_again(self) -> None:
        self.open().close("stopped")
        self._sink, self._cursor = None, Cursor()
        self.open()

    def _read(self) -> tuple[list[Event], int]:
        """Return the events after the cursor and the offset of their end, in bytes.

        An incomplete last line is left for the next call.
        """
        path = self._run.events_file()
        if not path.exists():
            return [], self._cursor.bytes
        try:
            with path.open("rb") as stream:
                if stream.seek(0, os.SEEK_END) < self._cursor.bytes:
                    raise DataError(
                        f"{path} is shorter than what was sent of it: another run is there. Delete "
                        f"{self._run.tracked(self._to)} to send this one"
                    )
                stream.seek(self._cursor.bytes)
                text = stream.read()
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
        whole = text[: text.rfind(b"\n") + 1]
        events = list(read_lines(whole.splitlines(keepends=True), str(path)))
        self.skipped += [str(event["text"]) for event in events if "skipped" in event]
        return events, self._cursor.bytes + len(whole)


def _resumed(event: Event) -> int | None:
    step = event["step"] if event["kind"] == "resumed_from" else None
    return step if isinstance(step, int) else None


def follow(
    feed: TrackerUpload,
    alive: Callable[[], bool],
    notify: Callable[[str], None],
    *,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Send new points until the run is complete, or has had no writer for `PATIENCE` looks.

    `alive` says whether a process writes the run. Returns the number of points. A failing tracker
    is reported once by `notify` and tried again; raises DeviceError when it still fails at the end.
    """
    sent, quiet, failed = 0, 0, False
    while True:
        quiet = 0 if alive() else quiet + 1
        last = quiet > 0 and (feed.complete or quiet > PATIENCE)
        try:
            sent += feed.catch_up()
            failed = False
        except DeviceError as error:
            if last:
                raise
            if not failed:
                notify(f"{error}; trying again, the training is not touched")
            failed = True
        if last:
            return sent
        wait(POLL)
