"""Judges the unfinished folders that `hotloop data tokenize` left beside its output folder.

The same command resumes from such a folder. It stays while a process holds its lock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hotloop.cleanup.disk_use import Item, Shelf, last_used, taken
from hotloop.core.errors import DataError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.lock import Lock, LockHolder
from hotloop.core.storage.rundir import RunDir
from hotloop.monitor.runs import subfolders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["lock_of", "token_shelves"]

_ROOM: Final = re.compile(r"\.(.+)\.unfinished")  # as data.tokenise names it
_IDENTITY: Final = frozenset({"format", "tokenizer", "data"})  # keys of its identity.json


def token_shelves(root: Path) -> list[Shelf]:
    """Return the unfinished folders in and below `root`, by path, except within run folders."""
    return [_shelf(room, root) for room in sorted(_rooms(root))]


def _shelf(room: Path, root: Path) -> Shelf:
    why = _why_in_use(room)
    size = taken(room)
    item = Item(
        path=room,
        kind="unfinished",
        bytes=size,
        goes=why is None,
        why=why or "unfinished: the same hotloop data tokenize goes on with it",
        last_used=last_used(room),
    )
    name = str(room.relative_to(root))
    return Shelf(path=room, name=name, state="tokens", bytes=size, items=(item,), why=why)


def lock_of(room: Path) -> Lock:
    """Return the lock of the writer of an unfinished folder, not acquired."""
    return Lock(_lock(room))


def _rooms(folder: Path) -> Iterator[Path]:
    for path in subfolders(folder):
        if _is_ours(path):
            yield path
        elif not path.name.startswith(".") and not RunDir(path).exists:
            yield from _rooms(path)


def _is_ours(path: Path) -> bool:
    """Whether the folder has the name and the identity file of data.tokenising."""
    if _ROOM.fullmatch(path.name) is None:
        return False
    try:
        return read_json(path / "identity.json").keys() >= _IDENTITY
    except (DataError, OSError):
        return False


def _lock(room: Path) -> Path:
    match = _ROOM.fullmatch(room.name)
    assert match is not None, room
    return room.with_name(f".{match[1]}.lock")


def _why_in_use(room: Path) -> str | None:
    """Return which process may be writing there, or None."""
    try:
        holder = LockHolder.parse(_lock(room).read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its lock cannot be read: {error}"
    if holder is None or holder.why_stale() is not None:
        return None
    return f"process {holder.pid} on {holder.host} is at it"
