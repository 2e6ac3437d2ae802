"""Describes the disk use of runs and caches: what can go, and why the rest stays."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hotloop.core.codec import to_json
from hotloop.core.env import ENV, Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = [
    "CleanupRequest",
    "CleanupResult",
    "Item",
    "Kind",
    "OtherCache",
    "Shelf",
    "last_used",
    "taken",
]

SCHEMA = 1  # of CleanupResult.to_json; history: 1 (2026-11) first

Kind = Literal["checkpoint", "unfinished", "broken", "tokens", "forecasts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """The options of a cleanup."""

    keep: int | None = None  # newest sound checkpoints of a run; None: as the run is configured
    broken: bool = False  # whether broken checkpoints go too
    unused: float | None = None  # days after which hotloop's own caches go; None: they stay
    environment: Environment = ENV
    now: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file or folder."""

    path: Path
    kind: Kind
    bytes: int
    goes: bool
    why: str  # why it goes or stays
    step: int | None = None  # of a checkpoint
    last_used: float | None = None  # Unix time; of a cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One run, one unfinished token folder, or hotloop's cache, with its judged items."""

    path: Path
    name: str
    state: str  # of a run as in hotloop status; "cache"; "tokens": an unfinished token folder
    bytes: int
    items: tuple[Item, ...]
    why: str | None = None  # why no item goes

    @property
    def can_go(self) -> tuple[Item, ...]:
        """The items that can go."""
        return tuple(item for item in self.items if item.goes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCache:
    """A cache of another tool, which is shown but never changed."""

    path: Path
    name: str
    bytes: int
    last_used: float | None
    how: str  # how to shrink it


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The shelves and caches of a cleanup."""

    shelves: tuple[Shelf, ...]  # runs by path, unfinished tokens by path, then hotloop's cache
    caches: tuple[OtherCache, ...]

    @property
    def can_go(self) -> int:
        """The total size of the items that can go, in bytes."""
        return sum(item.bytes for shelf in self.shelves for item in shelf.can_go)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"schema": SCHEMA, "can_go_bytes": self.can_go, **to_json(self)}


def taken(path: Path) -> int:
    """Return the size in bytes of a file, or of all files below a folder, without links."""
    return sum(status.st_size for status in _below(path))


def last_used(path: Path) -> float | None:
    """Return the Unix time of the last read or write of a file, or of any file below a folder.

    None if there is no file. Some file systems are mounted without access times.
    """
    return max((max(status.st_atime, status.st_mtime) for status in _below(path)), default=None)


def _below(path: Path) -> Iterator[os.stat_result]:
    pending = [str(path)]
    while pending:
        entry_path = pending.pop()
        try:
            status = os.lstat(entry_path)
            if stat.S_ISDIR(status.st_mode):
                pending += [entry.path for entry in os.scandir(entry_path)]
            elif stat.S_ISREG(status.st_mode):
                yield status
        except OSError:  # not readable, or removed meanwhile
            continue
