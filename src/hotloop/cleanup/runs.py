"""Judges the items of a run: checkpoints, broken ones moved aside, and leftovers of a crash.

The best checkpoint, the newest sound one and at least one more stay; a run that a process may be
working on keeps all. Broken checkpoints are evidence.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.cleanup.disk_use import Item, Shelf, last_used, taken
from hotloop.core.errors import HotloopError
from hotloop.core.storage.files import leftovers
from hotloop.core.storage.lock import LockHolder
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import best_of, beyond, listing, verified
from hotloop.monitor.runs import row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hotloop.cleanup.disk_use import CleanupRequest
    from hotloop.engine.checkpoint.folders import StoredCheckpoint

__all__ = ["LEAST", "aside", "run_shelf", "unfinished"]

LEAST = 2  # checkpoints that stay
STILL = 3600.0  # seconds without a change after which no machine writes a temporary folder
EVIDENCE = "broken: evidence"
_ASIDE = re.compile(r".+\.broken-[0-9a-f]{8}")  # as core.storage.files moves a broken folder aside
_WRITER = re.compile(r".+-(\d+)-[0-9a-f]{8}")  # the process id in the name of a temporary folder


def run_shelf(
    path: Path,
    root: Path,
    order: CleanupRequest,
    progress: Callable[[str], None],
    *,
    alone: bool = False,
) -> Shelf:
    """Return the shelf of the run in `path`, named relative to `root`.

    Checkpoints are verified if some may go. With `alone`, this process holds the lock of the run.
    """
    run, run_row = RunDir(path), row(path, root)
    why = _why_linked(run) or (None if alone else _why_in_use(run))
    items: list[Item] = []
    try:
        kept, best = _kept_count(run), run.best_step()
    except HotloopError as error:
        kept, best, why = LEAST, None, str(error)
    try:
        keep = max(LEAST, kept if order.keep is None else order.keep)
        checkpoints = (
            _verify_if_needed(run, progress, always=order.broken, more_than=keep)
            if why is None
            else []
        )
        items += _checkpoints(checkpoints or listing(run.checkpoints), keep, best, order, why)
        items += aside(
            run.checkpoints,
            why,
            goes=order.broken and any(checkpoint.sound for checkpoint in checkpoints),
        )
        items += unfinished(run.checkpoints, order, why, locked=True)
        items += unfinished(path, order, why, locked=False)
    except OSError as error:
        why, items = str(error), [replace(item, goes=False, why="stays") for item in items]
    return Shelf(
        path=path,
        name=run_row.path,
        state=run_row.state,
        bytes=taken(path),
        items=tuple(items),
        why=why,
    )


def _why_linked(run: RunDir) -> str | None:
    """Return why the checkpoints may belong to another run (the folder is a link), or None."""
    if not run.checkpoints.is_symlink():
        return None
    return f"checkpoints is a link to {os.path.realpath(run.checkpoints)}: what lies there stays"


def _why_in_use(run: RunDir) -> str | None:
    """Return which process may be writing to a run, or None."""
    holder = run.holder()
    if holder is None or holder.why_stale() is not None:
        return None
    return f"process {holder.pid} on {holder.host} is at it"


def _verify_if_needed(
    run: RunDir, progress: Callable[[str], None], *, always: bool, more_than: int
) -> list[StoredCheckpoint]:
    """Return a run's checkpoints, the oldest first, and verify them if some may go."""
    checkpoints = listing(run.checkpoints)
    if not always and len(checkpoints) <= more_than:
        return checkpoints
    checked = []
    for checkpoint in checkpoints:
        progress(f"reading {checkpoint.path}")
        checked.append(verified(checkpoint))
    return checked


def _checkpoints(
    checkpoints: Sequence[StoredCheckpoint],
    keep: int,
    best_step: int | None,
    order: CleanupRequest,
    why: str | None,
) -> Iterator[Item]:
    """Yield an item for each checkpoint; all stay if there is a reason `why`."""
    sound = [checkpoint for checkpoint in checkpoints if checkpoint.sound]
    best = {
        checkpoint.step for checkpoint in (best_of(sound, best_step),) if checkpoint is not None
    }
    validated = [checkpoint for checkpoint in sound if checkpoint.validation_loss is not None]
    best |= (
        {min(validated, key=lambda checkpoint: checkpoint.validation_loss or 0.0).step}
        if validated
        else set()
    )
    spare = {
        checkpoint.step for checkpoint in beyond(checkpoints, keep=keep, best_step=None)
    } - best
    for checkpoint in checkpoints:
        is_broken = checkpoint.bytes is None or bool(checkpoint.broken)
        goes, text = checkpoint.step in spare, _reason(checkpoint, best, spare, keep)
        if is_broken:
            goes, text = order.broken and bool(sound), "broken" if order.broken else EVIDENCE
            if order.broken and not sound:
                text = "the only one, though broken"
        yield Item(
            path=checkpoint.path,
            kind="broken" if is_broken else "checkpoint",
            bytes=taken(checkpoint.path),
            goes=goes and why is None,
            why=why or text,
            step=checkpoint.step,
        )


def aside(folder: Path, why: str | None, *, goes: bool) -> Iterator[Item]:
    """Yield the broken folders that were moved aside in a folder; all stay if there is a `why`."""
    for path in sorted(folder.glob("*.broken-*")):
        if _ASIDE.fullmatch(path.name):
            gone = goes and why is None
            text = why or ("broken" if gone else EVIDENCE)
            yield Item(path=path, kind="broken", bytes=taken(path), goes=gone, why=text)


def _kept_count(run: RunDir) -> int:
    """Return how many checkpoints the run is configured to keep."""
    config = run.read().get("config")
    keep = config.get("training.keep") if isinstance(config, dict) else None
    return keep if type(keep) is int else LEAST


def _reason(checkpoint: StoredCheckpoint, best: set[int], spare: set[int], keep: int) -> str:
    if checkpoint.step in spare:
        return "older"
    return "best" if checkpoint.step in best else f"one of the {keep} newest"


def unfinished(
    folder: Path, order: CleanupRequest, why: str | None, *, locked: bool
) -> Iterator[Item]:
    """Yield the leftovers of writers in a folder; all stay if there is a reason `why`.

    With `locked`, only the holder of a lock writes there; otherwise the process named by a leftover
    may be writing it.
    """
    for path in leftovers(folder):
        living = why if locked else why or _why_being_written(path, order.now())
        yield Item(
            path=path,
            kind="unfinished",
            bytes=taken(path),
            goes=living is None,
            why=living or "unfinished",
        )


def _why_being_written(path: Path, now: float) -> str | None:
    """Return why a process may be writing a temporary folder, or None."""
    writer = _WRITER.fullmatch(path.name)
    if writer is not None:
        pid = int(writer[1])
        if LockHolder(pid=pid, host=platform.node(), boot=None, started=None).why_stale() is None:
            return f"process {pid} may be writing it"
    used = last_used(path)
    return None if used is None or now - used > STILL else "changed within the hour"
