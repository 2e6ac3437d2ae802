"""Judges what a run keeps: its checkpoints, what was moved aside, and what a crash left.

The best checkpoint stays, the newest that verifies and at least one more; a run that a process may
be at keeps all. What is broken is evidence.
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
STILL = 3600.0  # seconds without a change after which nobody writes a temp, on no machine
EVIDENCE = "broken: evidence"
_ASIDE = re.compile(r".+\.broken-[0-9a-f]{8}")  # as core.storage.files moves a broken folder aside
_WRITER = re.compile(r".+-(\d+)-[0-9a-f]{8}")  # the process in the name of a temp


def run_shelf(
    path: Path,
    root: Path,
    order: CleanupRequest,
    progress: Callable[[str], None],
    *,
    alone: bool = False,
) -> Shelf:
    """Return what the run in `path` takes, named as seen from `root`.

    Checkpoints are read whole when some may go. `alone`: this process holds its lock.
    """
    run, told = RunDir(path), row(path, root)
    why = _linked(run) or (None if alone else _at_work(run))
    items: list[Item] = []
    try:
        kept, best = _kept(run), run.best_step()
    except HotloopError as error:
        kept, best, why = LEAST, None, str(error)
    try:
        keep = max(LEAST, kept if order.keep is None else order.keep)
        found = _verified(run, progress, always=order.broken, more_than=keep) if why is None else []
        items += _checkpoints(found or listing(run.checkpoints), keep, best, order, why)
        items += aside(run.checkpoints, why, goes=order.broken and any(one.sound for one in found))
        items += unfinished(run.checkpoints, order, why, locked=True)
        items += unfinished(path, order, why, locked=False)
    except OSError as error:
        why, items = str(error), [replace(item, goes=False, why="stays") for item in items]
    return Shelf(
        path=path, name=told.path, state=told.state, bytes=taken(path), items=tuple(items), why=why
    )


def _linked(run: RunDir) -> str | None:
    """Return why a run's checkpoints are not its own, or None: a link may lead into another run."""
    if not run.checkpoints.is_symlink():
        return None
    return f"checkpoints is a link to {os.path.realpath(run.checkpoints)}: what lies there stays"


def _at_work(run: RunDir) -> str | None:
    """Return who may be writing to a run; None: nobody."""
    holder = run.holder()
    if holder is None or holder.why_stale() is not None:
        return None
    return f"process {holder.pid} on {holder.host} is at it"


def _verified(
    run: RunDir, progress: Callable[[str], None], *, always: bool, more_than: int
) -> list[StoredCheckpoint]:
    """Return a run's checkpoints, the oldest first: read whole where some of them may go."""
    found = listing(run.checkpoints)
    if not always and len(found) <= more_than:
        return found
    checked = []
    for one in found:
        progress(f"reading {one.path}")
        checked.append(verified(one))
    return checked


def _checkpoints(
    found: Sequence[StoredCheckpoint],
    keep: int,
    best_step: int | None,
    order: CleanupRequest,
    why: str | None,
) -> Iterator[Item]:
    """Yield checkpoints with what becomes of them. `why` all stay; None: they are judged."""
    sound = [one for one in found if one.sound]
    best = {one.step for one in (best_of(sound, best_step),) if one is not None}
    known = [one for one in sound if one.validation_loss is not None]
    best |= {min(known, key=lambda one: one.validation_loss or 0.0).step} if known else set()
    spare = {one.step for one in beyond(found, keep=keep, best_step=None)} - best
    for one in found:
        is_broken = one.bytes is None or bool(one.broken)
        goes, text = one.step in spare, _reason(one, best, spare, keep)
        if is_broken:
            goes, text = order.broken and bool(sound), "broken" if order.broken else EVIDENCE
            if order.broken and not sound:
                text = "the only one, though broken"
        yield Item(
            path=one.path,
            kind="broken" if is_broken else "checkpoint",
            bytes=taken(one.path),
            goes=goes and why is None,
            why=why or text,
            step=one.step,
        )


def aside(folder: Path, why: str | None, *, goes: bool) -> Iterator[Item]:
    """Yield the broken folders that were moved aside in a folder. `why` they stay."""
    for path in sorted(folder.glob("*.broken-*")):
        if _ASIDE.fullmatch(path.name):
            gone = goes and why is None
            text = why or ("broken" if gone else EVIDENCE)
            yield Item(path=path, kind="broken", bytes=taken(path), goes=gone, why=text)


def _kept(run: RunDir) -> int:
    """Return how many checkpoints the run itself keeps."""
    config = run.read().get("config")
    keep = config.get("training.keep") if isinstance(config, dict) else None
    return keep if type(keep) is int else LEAST


def _reason(one: StoredCheckpoint, best: set[int], spare: set[int], keep: int) -> str:
    if one.step in spare:
        return "older"
    return "best" if one.step in best else f"one of the {keep} newest"


def unfinished(
    folder: Path, order: CleanupRequest, why: str | None, *, locked: bool
) -> Iterator[Item]:
    """Yield what writers left in a folder. `why` it stays; None: nobody is at it.

    With `locked`, only the holder of a lock writes there; else whoever is in the name.
    """
    for path in leftovers(folder):
        living = why if locked else why or _writing(path, order.now())
        yield Item(
            path=path,
            kind="unfinished",
            bytes=taken(path),
            goes=living is None,
            why=living or "unfinished",
        )


def _writing(path: Path, now: float) -> str | None:
    """Return why a temp may be being written; None: surely not."""
    writer = _WRITER.fullmatch(path.name)
    if writer is not None:
        pid = int(writer[1])
        if LockHolder(pid=pid, host=platform.node(), boot=None, started=None).why_stale() is None:
            return f"process {pid} may be writing it"
    used = last_used(path)
    return None if used is None or now - used > STILL else "changed within the hour"
