"""Open and check a token folder: its contents, their origin, and whether it is the right one.

OUT/about.json, OUT/dataset_dict.json, OUT/MANIFEST.json, and for each split a folder with an Arrow
file, dataset_info.json and state.json, as `datasets.load_from_disk` opens them.
about.json history: schema 1 (2026-11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.storage.manifest import MANIFEST, check_folder, hash_file, read_json
from hotloop.data.tokenising.arrow_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = [
    "ABOUT",
    "FILE",
    "FORMAT",
    "FORMAT_OF_TABLES",
    "Store",
    "as_datasets_has_it",
    "contents",
    "described",
    "differences",
    "open_store",
]

ABOUT: Final = "about.json"
FILE: Final = "data-00000-of-00001.arrow"
# Raise it when the same data and settings give other rows. Of tables, 2 (2026-11): classes have
# their names, and quotes may belong to texts.
FORMAT: Final = 1
FORMAT_OF_TABLES: Final = 2
SCHEMA: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A token folder that was checked and opened."""

    folder: Path
    about: Mapping[str, Any]
    splits: Mapping[str, TokenFile]

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return the data and settings that the folder was made of."""
        identity: Mapping[str, Any] = self.about["identity"]
        return identity


def described(sources: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the entries by which changed data are recognised, with time and xxh3-128 of files."""
    sums: dict[Path, str] = {}  # a file may hold several sources
    return [
        {
            "name": source.name,
            "path": str(source.path),
            "split": source.split,
            "bytes": source.bytes,
            "changed": max(path.stat().st_mtime_ns for path in source.paths),
            "xxh3_128": _sum(source, sums),
            **({} if source.member is None else {"member": source.member}),
        }
        for source in sources
    ]


def _sum(source: Any, sums: dict[Path, str]) -> str:
    """Return what changes with the rows of a source: of one file its xxh3-128, kept in `sums`."""
    for path in source.paths:
        sums[path] = sums.get(path) or hash_file(path)
    parts = [sums[path] for path in source.paths]
    parts += [part for part in (source.folder, source.member) if part is not None]
    return digest(*parts) if len(parts) > 1 else parts[0]


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return how the origin of a folder differs from the requested one, in words."""
    sentences = []
    for key in sorted({*was, *now} - {"data", "tokenizer_name"}):  # a folder may have moved
        if was.get(key) != now.get(key):
            sentences.append(
                f"{key.replace('_', ' ')}: {_word(was.get(key))}, not {_word(now.get(key))}"
            )
    if contents(was) == contents(now):  # under any file names
        return sentences
    before = {file["name"]: file for file in was.get("data", ())}
    after = {file["name"]: file for file in now.get("data", ())}
    sentences += [f"data: {name} is not part of it" for name in sorted({*after} - {*before})]
    sentences += [f"data: it has {name}, which is gone" for name in sorted({*before} - {*after})]
    for name in sorted({*before} & {*after}):
        if before[name]["xxh3_128"] != after[name]["xxh3_128"]:
            sentences.append(f"data: {name} was changed since")
        elif before[name]["split"] != after[name]["split"]:
            sentences.append(f"data: {name} was split {before[name]['split']}")
    return sentences


def contents(identity: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the contents of the files, in order, without their paths: (split, xxh3-128)."""
    return [(file["split"], file["xxh3_128"]) for file in identity.get("data", ())]


def _word(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={element}" for key, element in value.items()) or "none"
    return "none" if value is None else str(value)


def open_store(
    folder: Path, *, wanted: Mapping[str, Any] | None = None, sums: bool = False
) -> Store:
    """Open a token folder; with `wanted`, only if it was made of just that.

    `wanted` may hold some of the identity's keys. With `sums` the checksums of all files are
    checked, else their sizes. Raises DataError, which names what is damaged or different.
    """
    if not (folder / ABOUT).is_file():
        raise DataError(f"{folder} holds no tokens (no {ABOUT}): hotloop data tokenize makes them")
    about = read_json(folder / ABOUT)
    if about.get("kind") != "tokens" or about.get("schema") != SCHEMA:
        raise DataError(
            f"{folder / ABOUT} is of kind {about.get('kind')}, schema {about.get('schema')}; this "
            f"version reads tokens of schema {SCHEMA}: make them anew with hotloop data tokenize"
        )
    broken = check_folder(folder) if sums else _sizes(folder)
    if broken:
        raise DataError(f"{folder} is damaged: {'; '.join(broken)}; remove it and make it anew")
    identity, splits = about.get("identity"), about.get("splits")
    if not isinstance(identity, dict) or not isinstance(splits, dict):
        raise DataError(f"{folder / ABOUT} lacks what the tokens were made of: make them anew")
    if wanted is not None:
        differ = differences({key: identity.get(key) for key in wanted}, wanted)
        if differ:
            raise DataError(
                f"the tokens in {folder} are not those that are asked for: {'; '.join(differ)}; "
                "name another folder, or remove this one"
            )
    files = {name: TokenFile(folder / name / FILE) for name in splits}
    for name, file in files.items():
        if file.rows != splits[name]["rows"]:
            raise DataError(
                f"{folder / name} has {file.rows} rows, {ABOUT} says {splits[name]['rows']}"
            )
    return Store(folder=folder, about=about, splits=files)


def _sizes(folder: Path) -> list[str]:
    from hotloop.core.storage.manifest import read_manifest

    try:
        files = read_manifest(folder)["files"]
    except DataError as error:
        return [str(error)]
    assert isinstance(files, dict)
    return [
        f"{name} has not the size that {MANIFEST} says"
        for name, entry in files.items()
        if not (folder / name).is_file() or (folder / name).stat().st_size != entry["bytes"]
    ]


def as_datasets_has_it(features: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the two files beside a split's rows, by name, as `datasets` 5 writes them."""
    return {
        "dataset_info.json": {"citation": "", "description": "", "features": features},
        "state.json": {
            "_data_files": [{"filename": FILE}],
            "_fingerprint": "",
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        },
    }
