"""Finds every run below a folder and reads its state; a damaged run is a row with the reason."""

from __future__ import annotations

import os
from dataclasses import dataclass
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

# Bytes read from the end of the events: about 50 steps, or 10 for a run without a lock.
BYTES, OVER = 16 * 1024, 4 * 1024
PASSED = frozenset({"__pycache__", "node_modules", "site-packages"})  # never contain runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run. Unknown is None."""

    path: str  # relative to the requested folder
    state: str  # running, complete, stopped, failed, diverged, crashed, damaged
    what: str | None = None  # the recipe or the script
    why: str | None = None  # reason for the state, or for being idle
    phase: str | None = None  # of a running one
    step: int | None = None
    steps: int | None = None
    saved_step: int | None = None
    saved_ago_s: float | None = None
    left_s: float | None = None


def rows(folder: Path) -> list[RunRow]:
    """Return a row for each run in or below `folder`, by path; raise UsageError as `folders`."""
    return [row(path, folder) for path in folders(folder)]


def folders(folder: Path) -> list[Path]:
    """Return the folders of runs in or below `folder`, by path.

    Hidden folders, except those of observed scripts, are skipped, and links are not followed.
    Raises UsageError if there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name one that holds runs")
    return sorted(_run_folders(folder))


def _run_folders(folder: Path) -> Iterator[Path]:
    if RunDir(folder).exists:
        yield folder
        return
    for path in subfolders(folder):
        if path.name == OBSERVED or not path.name.startswith("."):
            yield from _run_folders(path)


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder that may contain runs; none if it cannot be read.

    Links are not followed.
    """
    try:
        with os.scandir(folder) as entries:
            below = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:  # not readable, or removed meanwhile
        return []
    return [path for path in below if path.name not in PASSED]


def row(path: Path, folder: Path) -> RunRow:
    """Return the row of the run in `path`, named relative to `folder`."""
    name = str(path.relative_to(folder)) if path != folder else str(path)
    try:
        reader = RunReader(path, bytes=BYTES if RunDir(path).has_lock else OVER)
        if reader.record.get("kind") == "script":
            return _script_row(name, path, reader.record)
        return _trained_row(name, reader.read())
    except (HotloopError, OSError) as error:
        return RunRow(path=name, state="damaged", why=str(error))


def _trained_row(name: str, run: RunReading) -> RunRow:
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


def _script_row(name: str, path: Path, record: Mapping[str, object]) -> RunRow:
    """Return the row of an observed script, whose run folder is written at its end."""
    try:
        steps = read_json(RunDir(path).findings).get("steps")
    except DataError:  # only the record has the outcome
        steps = None
    script = record.get("script")
    return RunRow(
        path=name,
        state=str(record.get("status", "unknown")),
        what=Path(script).name if isinstance(script, str) else None,
        step=steps if isinstance(steps, int) else None,
    )
