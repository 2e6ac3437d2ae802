"""Writes the files of the sets, and keeps the list of the sets for sets.json."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.public_samples.columns import parquet, table

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.public_samples.columns import Row

__all__ = ["HUB", "LIBRARY", "Samples", "json_lines", "packed", "portions", "tab_separated"]

HUB = "https://huggingface.co/datasets/"  # what the docstrings call the hub
LIBRARY = "github huggingface/datasets@2.4.0"  # it still has a loading script for each set


@dataclass(slots=True, kw_only=True)
class Samples:
    """The folder that is being filled, the random numbers, and the list of the sets so far.

    All sets draw from one generator: a set that draws more, or earlier, changes those after it.
    """

    folder: Path
    draw: random.Random
    sets: list[Row] = field(default_factory=list)

    def describe(
        self,
        slug: str,
        *,
        name: str,
        form: str,
        kind: str,
        published_by: str,
        notes: str,
        verified: bool = True,
        within: str = "",
    ) -> None:
        """Add a set to the list; `within` is the folder of the set below data/<slug>.

        A set is verified when its shape was seen at its publisher or in a reader of its files.
        """
        self.sets.append(
            {
                "slug": slug,
                "name": name,
                "form": form,
                "folder": f"data/{slug}/{within}".rstrip("/"),
                "kind": kind,
                "published_by": published_by,
                "verified": verified,
                "notes": notes,
            }
        )

    def write(self, place: str, content: str | bytes, *, encoding: str = "utf-8") -> Path:
        """Write a file below data/ and return its path."""
        path = self.folder / "data" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
        return path

    def write_arrow(self, place: str, rows: Sequence[Row], columns: Row) -> int:
        """Write an Arrow stream, as the library does, and return the bytes of its table."""
        content = table(rows, columns)
        buffer = io.BytesIO()
        with pa.ipc.new_stream(buffer, content.schema) as stream:
            stream.write_table(content)
        self.write(place, buffer.getvalue())
        return int(content.nbytes)

    def write_hub(
        self,
        slug: str,
        splits: Mapping[str, Sequence[Row]],
        columns: Row,
        *,
        folder: str,
        config: str = "default",
        shards: Mapping[str, int] | None = None,
        is_hashed: bool = False,
    ) -> None:
        """Write a repository of the hub: parquet shards, and a README.md with the configuration.

        A shard is called <split>-00000-of-00001.parquet; with `is_hashed`, 16 hexadecimal digits
        stand before the suffix, as older versions of the library wrote them.
        """
        for split, rows in splits.items():
            count = (shards or {}).get(split, 1)
            for number in range(count):
                part = rows[len(rows) * number // count : len(rows) * (number + 1) // count]
                name = f"{split}-{number:05d}-of-{count:05d}"
                if is_hashed:
                    name += f"-{hashlib.md5(f'{slug}{split}{number}'.encode()).hexdigest()[:16]}"
                self.write(f"{slug}/{folder}/{name}.parquet", parquet(part, columns))
        self.write(f"{slug}/README.md", _card(splits, folder=folder, config=config))

    def finish(self) -> None:
        """Write sets.json."""
        text = json.dumps(self.sets, indent=1, ensure_ascii=False)
        (self.folder / "sets.json").write_text(text, encoding="utf-8")


def json_lines(rows: Iterable[Row], **options: Any) -> str:
    """Return one line of JSON for each row; the options are those of json.dumps."""
    return "".join(json.dumps(row, **options) + "\n" for row in rows)


def packed(text: str) -> bytes:
    """Return the text in gzip's format, without a time, so that it is the same in each run."""
    return gzip.compress(text.encode(), mtime=0)


def portions(rows: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """Return consecutive parts of the rows with these sizes."""
    found, start = [], 0
    for size in sizes:
        found.append([*rows[start : start + size]])
        start += size
    return found


def tab_separated(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table with a header; nothing is quoted."""
    return "".join("\t".join(map(str, row)) + "\n" for row in [header, *rows])


def _card(splits: Iterable[str], *, folder: str, config: str) -> str:
    files = "".join(f"  - split: {split}\n    path: {folder}/{split}-*\n" for split in splits)
    return f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n\n# Dataset Card\n"
