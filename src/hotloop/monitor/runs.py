"""Finds every run below a folder and says how each stands; a damaged one is a row with why."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError, HotloopError, UsageError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import OBSERVED, RunDir
from hotloop.monitor.run import RunReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotloop.monitor.run import RunReading

__all__ = ["RunRow", "folders", "row", "rows", "subfolders"]

BYTES, OVER = 16 * 1024, 4 * 1024  # of the end of the events: some 50 steps, 10 where nobody is
PASSED = frozenset({"__pycache__", "node_modules", "site-packages"})  # no run lies in there


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run. Unknown is None."""

    path: str  # below the folder that was asked for
    state: str  # running, complete, stopped, failed, diverged, crashed, damaged
    what: str | None = None  # the recipe or the script
    why: str | None = None  # of the state, or of its doing nothing
    phase: str | None = None  # what a running one does
    step: int | None = None
    steps: int | None = None
    saved_step: int | None = None
    saved_ago_s: float | None = None
    left_s: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def rows(folder: Path) -> list[RunRow]:
    """Return a row for each run in `folder` or below it, by path; UsageError as `folders`."""
    return [row(path, folder) for path in folders(folder)]


def folders(folder: Path) -> list[Path]:
    """Return the folders of runs in `folder` or below it, by path.

    Hidden folders are passed over, but for those of observed scripts, and links are not followed.
    Raises UsageError when there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name one that holds runs")
    return sorted(_found(folder))


def _found(folder: Path) -> Iterator[Path]:
    if RunDir(folder).exists:
        yield folder
        return
    for path in subfolders(folder):
        if path.name == OBSERVED or not path.name.startswith("."):
            yield from _found(path)


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder where something of ours may lie; none where we may not look.

    Links are not followed.
    """
    try:
        with os.scandir(folder) as entries:
            below = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:  # closed to us, or gone since
        return []
    return [path for path in below if path.name not in PASSED]


def row(path: Path, folder: Path) -> RunRow:
    """Return how the run in `path` stands; it is named as seen from `folder`."""
    name = str(path.relative_to(folder)) if path != folder else str(path)
    try:
        reader = RunReader(path, bytes=BYTES if RunDir(path).has_lock else OVER)
        if reader.record.get("kind") == "script":
            return _script(name, path, reader.record)
        return _trained(name, reader.read())
    except (HotloopError, OSError) as error:
        return RunRow(path=name, state="damaged", why=str(error))


def _trained(name: str, run: RunReading) -> RunRow:
    return RunRow(
        path=name,
        state=run.state,
        what=run.what,
        why=run.why or run.idle,
        phase=run.phase,
        step=run.step,
        steps=run.steps,
        saved_step=run.saved_step,
        saved_ago_s=run.saved_ago,
        left_s=run.seconds_left,
    )


def _script(name: str, path: Path, record: Mapping[str, object]) -> RunRow:
    """Describe what was kept of a script; it is written when the script is over."""
    try:
        made = read_json(RunDir(path).findings).get("steps")
    except DataError:  # the record alone says how it ended
        made = None
    script = record.get("script")
    return RunRow(
        path=name,
        state=str(record.get("status", "unknown")),
        what=Path(script).name if isinstance(script, str) else None,
        step=made if isinstance(made, int) else None,
    )
