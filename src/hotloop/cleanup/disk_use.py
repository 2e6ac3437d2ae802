"""What runs and caches take on the disk: what of it can go, and why the rest stays."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

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

SCHEMA = 1  # of Found.to_json; history: 1 (2026-11) first

Kind = Literal["checkpoint", "unfinished", "broken", "tokens", "forecasts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """What is asked for."""

    keep: int | None = None  # newest sound checkpoints of a run; None: what the run itself keeps
    broken: bool = False  # whether evidence goes too
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
    why: str  # it goes, or stays
    step: int | None = None  # of a checkpoint
    last_used: float | None = None  # Unix time; of a cache

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One run, or hotloop's cache: what it takes, and what of that was judged."""

    path: Path
    name: str
    state: str  # of a run as in hotloop status; "cache"; "tokens": of an unfinished folder of them
    bytes: int
    items: tuple[Item, ...]
    why: str | None = None  # nothing of it goes

    @property
    def can_go(self) -> tuple[Item, ...]:
        """Return what goes."""
        return tuple(item for item in self.items if item.goes)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        items = [item.to_json() for item in self.items]
        return {**asdict(self), "path": str(self.path), "items": items}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCache:
    """A cache that others keep: shown, and never touched."""

    path: Path
    name: str
    bytes: int
    last_used: float | None
    how: str  # to make it smaller

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """All of it."""

    shelves: tuple[Shelf, ...]  # runs by path, unfinished tokens by path, then hotloop's cache
    caches: tuple[OtherCache, ...]

    @property
    def can_go(self) -> int:
        """Return the bytes that can go."""
        return sum(item.bytes for shelf in self.shelves for item in shelf.can_go)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "schema": SCHEMA,
            "can_go_bytes": self.can_go,
            "shelves": [shelf.to_json() for shelf in self.shelves],
            "caches": [cache.to_json() for cache in self.caches],
        }


def taken(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; links count as nothing."""
    return sum(about.st_size for about in _below(path))


def last_used(path: Path) -> float | None:
    """Return when a file was last read or written, or any below a folder, in Unix time.

    None where there is none. Some file systems are mounted so that they keep no time of reading.
    """
    return max((max(about.st_atime, about.st_mtime) for about in _below(path)), default=None)


def _below(path: Path) -> Iterator[os.stat_result]:
    waiting = [str(path)]
    while waiting:
        one = waiting.pop()
        try:
            about = os.lstat(one)
            if stat.S_ISDIR(about.st_mode):
                waiting += [entry.path for entry in os.scandir(one)]
            elif stat.S_ISREG(about.st_mode):
                yield about
        except OSError:  # closed to us, or gone since
            continue
