"""Finds the files that a run has made, and hides them from the next run of the same script.

A script that finds a cache or a checkpoint of its own does something else than at its first run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["entries_of", "made_since", "remove"]

_MOST: Final = 50_000  # entries of a folder; a larger one is not listed
_APART: Final = (".git", ".hotloop", "__pycache__")


def entries_of(folder: Path) -> frozenset[str] | None:
    """Return the files and folders below a folder, as relative paths; None if they are too many."""
    entries = set[str]()
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _APART]
        entries.update(os.path.relpath(os.path.join(path, name), folder) for name in folders)
        entries.update(os.path.relpath(os.path.join(path, name), folder) for name in files)
        if len(entries) > _MOST:
            return None
    return frozenset(entries)


def made_since(before: frozenset[str] | None, folder: Path) -> tuple[str, ...]:
    """Return what a folder has now and had not before; of a new folder its name alone."""
    now = None if before is None else entries_of(folder)
    new = set[str]() if now is None or before is None else now - before
    return tuple(sorted(path for path in new if os.path.dirname(path) not in new))


def remove(paths: Iterable[str]) -> None:
    """Remove files and folders below the current one: what is gone or denied stays as it is."""
    for path in paths:
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
