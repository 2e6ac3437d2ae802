"""What a search found out about a data set, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hotloop.core.codec import to_json

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from hotloop.machine.file_storage import Storage

__all__ = ["DataFile", "DataSet", "Kind", "Missing", "Reference"]

Kind = Literal["hub", "datasets-cache", "hotloop-tokens", "folder", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of a data set."""

    path: Path  # to read; in a hub cache, the link that has the file's name
    split: str
    format: str
    bytes: int
    used: float  # Unix time of the last read or write, as far as the file system records it

    @classmethod
    def of(cls, path: Path, about: os.stat_result, *, split: str, format: str) -> DataFile:
        """Return the file with its size and time of last use."""
        used = max(about.st_atime, about.st_mtime)
        return cls(path=path, split=split, format=format, bytes=about.st_size, used=used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A place in the project that names a data set."""

    file: str  # below the project
    line: int
    name: str | None = None  # of the manifest's entry, such as the expert's


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Data that a manifest or configuration names and that does not exist."""

    what: str
    place: Reference

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"what": self.what, **to_json(self.place)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set on this machine. Unknown values are None."""

    id: str  # on the hub, or the path
    config: str | None = None  # of a Hugging Face data set
    path: Path
    kind: Kind
    format: str  # "jsonl", "csv.gz + json", ...
    files: tuple[DataFile, ...]
    splits: Mapping[str, int | None]  # rows by split
    bytes: int  # of all files, with all revisions of a hub repository
    last_used: float | None  # Unix time
    whole: bool = True  # whether `path` holds only this data set
    unit: Literal["rows", "tokens"] = "rows"
    storage: Storage | None = None
    referred_by: tuple[Reference, ...] = field(default=())

    @property
    def rows(self) -> int | None:
        """Return the rows (or tokens) of all splits; None if one is unknown."""
        known = [rows for rows in self.splits.values() if rows is not None]
        return sum(known) if known and len(known) == len(self.splits) else None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        fields = to_json(self)
        return {
            "id": self.id,
            "config": self.config,
            "path": str(self.path),
            "kind": self.kind,
            "format": self.format,
            "files": len(self.files),
            "bytes": self.bytes,
            "unit": self.unit,
            "rows": self.rows,
            "splits": fields["splits"],
            "last_used": self.last_used,
            "storage": fields["storage"],
            "referred_by": fields["referred_by"],
        }
