"""Stores choices made by measuring on this machine, so that the next run rounds the same way.

One JSON file per machine and versions. History: schema 1 (2026-11).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from hotloop.core.digest import digest
from hotloop.core.errors import DataError, WriteError
from hotloop.core.storage.files import make_folder, read_json, write_json
from hotloop.machine.identity import identity

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Ways"]

SCHEMA = 1


class Ways(dict[str, str]):
    """Maps a shape, in words, to the way that was chosen for it, and writes additions to a file.

    An unwritable folder is no error, and a damaged file counts as absent.
    """

    def __init__(self, folder: Path) -> None:
        """Read the choices of earlier runs on this machine."""
        name = digest(json.dumps(identity(), sort_keys=True))
        self._path = folder / f"ways-{name}.json"
        super().__init__(_read(self._path))
        self._of_this_run: set[str] = set()

    def __setitem__(self, shape: str, way: str) -> None:
        """Store a choice; keep those that other runs have made meanwhile."""
        super().__setitem__(shape, way)
        self._of_this_run.discard(shape)
        with suppress(WriteError):
            make_folder(self._path.parent)
            measured = {key: self[key] for key in self if key not in self._of_this_run}
            write_json(self._path, {"schema": SCHEMA, "ways": {**_read(self._path), **measured}})

    def keep(self, shape: str, way: str) -> None:
        """Store a choice that was not measured, for this run and its checkpoints alone."""
        super().__setitem__(shape, way)
        self._of_this_run.add(shape)


def _read(path: Path) -> dict[str, str]:
    try:
        content = read_json(path)
    except DataError:
        return {}
    ways = content.get("ways")
    if content.get("schema") != SCHEMA or not isinstance(ways, dict):
        return {}
    return {shape: way for shape, way in ways.items() if isinstance(way, str)}
