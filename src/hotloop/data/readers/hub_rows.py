"""Recognises names of data sets of the hub, finds them in the caches, and says how to get them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hotloop.core.env import ENV
from hotloop.core.errors import DataError
from hotloop.data.readers.file_names import format_of
from hotloop.data.readers.split_words import is_split

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.env import Environment

__all__ = ["cached_folder", "hub_command", "is_hub_id", "may_be_hub_id"]

_ID: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SHORT: Final = re.compile(r"[A-Za-z][\w-]*")  # of the first data sets, such as imdb


def is_hub_id(text: str) -> bool:
    """Return whether a text has the form of an id of the hub, OWNER/NAME, and not of a file."""
    return _ID.fullmatch(text) is not None and format_of(text) is None


def may_be_hub_id(text: str) -> bool:
    """Return whether a text may be an id of the hub, also one without an owner."""
    return is_hub_id(text) or _SHORT.fullmatch(text) is not None


def hub_command(name: str) -> str:
    """Return the command that writes the rows of a data set to rows.jsonl.

    `name` may be name::split::configuration; the command needs a network and the package datasets.
    """
    hub, split, config = [*name.split("::"), "", ""][:3]
    which = ", ".join(repr(part) for part in (hub, config) if part)
    return (
        f'python -c "from datasets import load_dataset; load_dataset({which},'
        f" split={split or 'train'!r}).to_json('rows.jsonl')\""
    )


def cached_folder(name: str, environment: Environment = ENV) -> Path | None:
    """Return the folder in which huggingface_hub or `datasets` keeps a data set, or None.

    `name` may be name::split::configuration. Raises DataError where the set has several
    configurations and `name` has none of them.
    """
    hub, split, config = [*name.split("::"), "", ""][:3]
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", hub) or ".." in hub:
        return None
    owned = hub.replace("/", "--")
    snapshots = environment.hub / f"datasets--{owned}" / "snapshots"
    places = [_newest(snapshots), environment.datasets / hub.replace("/", "___")]
    for place in places:
        if place is None or not place.is_dir():
            continue
        inside = sorted(place.iterdir())
        folders = [p for p in inside if p.is_dir() and not _is_one(p.name) and _has_data(p)]
        if not config and any(format_of(path.name) for path in inside if path.is_file()):
            return place
        if config:
            folders = [folder for folder in folders if folder.name == config]
        if not folders:
            return None if config else place
        if len(folders) > 1:
            names = ", ".join(folder.name for folder in folders)
            raise DataError(
                f"{hub} in {place} has the configurations {names}: name one, as "
                f"{hub}::{split or 'train'}::{folders[0].name}"
            )
        built = [path.parent for path in folders[0].glob("*/*/dataset_info.json")]
        return max(built, key=_changed) if built else folders[0]
    return None


def _is_one(folder: str) -> bool:
    """Return whether a folder at the top of a data set is none of a configuration."""
    return folder == "data" or folder.startswith(".") or is_split(folder)


def _has_data(folder: Path) -> bool:
    return any(format_of(path.name) for path in folder.rglob("*"))


def _newest(snapshots: Path) -> Path | None:
    main = snapshots.with_name("refs") / "main"
    if main.is_file() and (named := snapshots / main.read_text(encoding="utf-8").strip()).is_dir():
        return named
    found = list(snapshots.iterdir()) if snapshots.is_dir() else []
    return max(found, key=_changed, default=None)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns
