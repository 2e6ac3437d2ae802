"""Examines runs and caches and removes the items that can go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.cleanup.caches import cache_shelf, others
from hotloop.cleanup.disk_use import CleanupResult
from hotloop.cleanup.runs import run_shelf
from hotloop.cleanup.tokens import lock_of, token_shelves
from hotloop.core.errors import HotloopError, WriteError
from hotloop.core.storage.files import DISK, Disk, remove_folder
from hotloop.core.storage.rundir import RunDir
from hotloop.monitor.runs import folders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hotloop.cleanup.disk_use import CleanupRequest, Item, Shelf

__all__ = ["look", "remove"]


def look(
    folder: Path, order: CleanupRequest, progress: Callable[[str], None] = lambda text: None
) -> CleanupResult:
    """Return the shelves of the runs in and below `folder`, and of this user's caches.

    Unfinished token folders follow the runs. Checkpoints that may go are verified. Raises
    UsageError if there is no such folder.
    """
    shelves = [run_shelf(path, folder, order, progress) for path in folders(folder)]
    shelves += token_shelves(folder)
    if order.environment.cache.is_dir():
        shelves.append(cache_shelf(order))
    return CleanupResult(shelves=tuple(shelves), caches=tuple(others(order, progress)))


def remove(
    shelf: Shelf,
    order: CleanupRequest,
    progress: Callable[[str], None] = lambda text: None,
    *,
    disk: Disk = DISK,
) -> tuple[list[Item], list[str]]:
    """Remove the items of a shelf that can go; return those removed and the error messages.

    A run or an unfinished token folder is locked and judged again first, so that the files of a
    process that has started since are not touched. `disk` is a seam.
    """
    if shelf.state == "cache":
        return _drop(shelf.can_go, progress, disk)
    is_run = shelf.state != "tokens"
    lock = RunDir(shelf.path).lock() if is_run else lock_of(shelf.path)
    try:
        lock.acquire()
    except HotloopError as error:
        return [], [str(error)]
    try:
        if not is_run:
            return _drop([item for item in shelf.can_go if item.path.exists()], progress, disk)
        rejudged = run_shelf(shelf.path, shelf.path, order, progress, alone=True)
        wanted = {item.path for item in shelf.can_go}
        going = [item for item in rejudged.can_go if item.path in wanted]
        return _drop(going, progress, disk)
    finally:
        lock.release()


def _drop(
    items: Sequence[Item], progress: Callable[[str], None], disk: Disk
) -> tuple[list[Item], list[str]]:
    gone, wrong = [], []
    for item in items:
        progress(f"removing {item.path}")
        try:
            remove_folder(item.path, disk=disk)
            gone.append(item)
        except WriteError as error:
            wrong.append(str(error))
    return gone, wrong
