"""Find the files of records that names stand for, with their formats and splits."""

from __future__ import annotations

import glob
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from hotloop.core.errors import DataError, did_you_mean
from hotloop.core.storage.manifest import is_plain, read_json
from hotloop.data.readers.advised_options import said
from hotloop.data.readers.arrow import ARROW
from hotloop.data.readers.clean_text import HEAD_BYTES, NOT_DATA, refuse, walk
from hotloop.data.readers.file_names import format_of, split_of
from hotloop.data.readers.folder_splits import split_around, splits_by_libraries, without_shard
from hotloop.data.readers.formats import BY_SUFFIX, FORMATS
from hotloop.data.readers.hub_rows import cached_folder, hub_command, may_be_hub_id
from hotloop.data.readers.json_array import JSON, key_name, members
from hotloop.data.readers.parallel import PARALLEL, languages_beside, parallel_texts
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.prose import TXT
from hotloop.data.readers.split_words import is_split, split_word
from hotloop.data.readers.text_lines import COMPRESSED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.readers.portions import Documents

__all__ = ["Sources", "find_sources"]

TRAIN = "train"  # the split of files whose names do not tell theirs
_SPLITS = (TRAIN, "validation", "test")  # their order; others follow


class _File(NamedTuple):
    path: Path
    format: str
    split: str | None  # by the names
    folder: str | None = None  # as of RecordFile
    beside: tuple[Path, ...] = ()  # as of RecordFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Files of records, by split and then by name."""

    files: tuple[RecordFile, ...]
    notes: tuple[str, ...] = ()  # which files were left out

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits: train, validation and test before others."""
        return tuple(dict.fromkeys(file.split for file in self.files))


def find_sources(
    names: Sequence[str],
    *,
    format: str | None = None,
    documents: Documents = "file",
    by: Said = None,
) -> Sources:
    """Return the files that `names` stand for: files, folders and patterns such as data/*.jsonl.

    A folder is searched recursively. Data sets that `datasets` saved in it are found by their own
    lists of files, with the splits of a DatasetDict. `format` is that of all files; by default each
    name tells it. The split is told by the name of a file or of a folder around it, up to the named
    folder; "train" if neither tells it. `by` maps options to the user's words. Raises DataError if
    nothing is found, a file is empty, a folder has several formats, or one file is named for two
    splits.
    """
    notes: list[str] = []
    files = [file for name in names for file in _files_of(name, format, documents, notes, by)]
    if not files:
        raise DataError("no data are named; name files, folders or patterns such as data/*.jsonl")
    known = {split: place for place, split in enumerate(_SPLITS)}
    files.sort(key=lambda file: (known.get(file.split, len(known)), file.split, file.name))
    return Sources(files=tuple(_unique(files)), notes=tuple(notes))


def _files_of(
    name: str, format: str | None, documents: Documents, notes: list[str], by: Said
) -> list[RecordFile]:
    place = Path(os.path.expanduser(name))
    try:
        split = ""
        of_hub = None if place.exists() else _below(place)
        if of_hub is not None and (cached := cached_folder(of_hub)) is not None:
            split = [*of_hub.split("::"), ""][1]
            notes.append(f"{of_hub} is read from a cache: {cached}")
            place = cached
        if place.is_dir():
            files = _in_folder(place, format, notes, by)
        elif format is None and (texts := languages_beside(place, _siblings(place))):
            files = [_File(texts[0], PARALLEL.name, split_of(place.name), beside=texts[1:])]
        else:
            paths = [place] if place.exists() else _matches(place)
            files = [
                _File(path, format or _format_of_file(path, by), split_of(path.name))
                for path in paths
            ]
        found = [record for file in files for record in _records_of(file, documents)]
        return found if not split else _of_split(found, split, name)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):  # a DataError is a ValueError
            raise
        refuse(error if isinstance(error, OSError) else OSError(str(error)), name)  # a NUL in it


def _of_split(files: list[RecordFile], split: str, name: str) -> list[RecordFile]:
    """Return the files of a split: train_sft by their names, or train by what they are for."""
    named = [file for file in files if without_shard(file.path.stem) == split]
    chosen = named or [file for file in files if file.split == (split_word(split) or split)]
    if not chosen:
        splits = ", ".join(dict.fromkeys(file.split for file in files))
        raise DataError(f"{name} has no split {split!r}; there are {splits}")
    return chosen


def _records_of(file: _File, documents: Documents) -> list[RecordFile]:
    """Return the lists of records of a file: one, or each split that a JSON file has in one."""
    path, is_json = file.path, file.format == JSON.name
    record = RecordFile(
        path=path,
        name=str(path),
        split=file.split or TRAIN,
        format=file.format,
        bytes=_size(path, file.format),
        documents=documents,
        folder=file.folder,
        beside=file.beside,
    )
    keys = members(path) if is_json else ()
    return [
        replace(
            record,
            name=f"{path}: {key_name(key)}",
            split=split_word(key_name(key)) or TRAIN,
            member=key,
        )
        for key in keys
    ] or [record]


def _siblings(place: Path) -> list[Path]:
    return list(place.parent.iterdir()) if place.parent.is_dir() else []


def _matches(place: Path) -> list[Path]:
    paths = [Path(match) for match in sorted(glob.glob(os.fspath(place), recursive=True))]
    if files := [path for path in paths if path.is_file()]:
        return files
    near = ""
    if place.parent.is_dir():
        near = did_you_mean(place.name, (entry.name for entry in place.parent.iterdir()))
    name, advice = _below(place), "; name a file, a folder or a pattern such as data/*.jsonl"
    if name is not None and may_be_hub_id(name.partition("::")[0]):
        advice += f"; if it is a data set of the hub, {hub_command(name)} writes its rows to a file"
    raise DataError(
        f"{place} does not exist, and no file matches it (looked from {Path.cwd()}){near or advice}"
    )


def _below(place: Path) -> str | None:
    """Return a path as it is written below the working folder; None for one outside of it."""
    try:
        return place.relative_to(Path.cwd()).as_posix() if place.is_absolute() else place.as_posix()
    except ValueError:
        return None


def _size(path: Path, kind: str) -> int:
    if not path.is_file():
        raise DataError(f"{path} is neither a file nor a folder; name a file of records")
    if path.suffix.lower() in COMPRESSED and FORMATS[kind].is_columnar:
        raise DataError(
            f"{path} is {kind}, which is not read packed: unpack it ({COMPRESSED[path.suffix]})"
        )
    size = path.stat().st_size
    if size == 0:
        raise DataError(f"{path} is empty; fill it, or leave it out")
    return size


def _format_of_file(path: Path, by: Said) -> str:
    """Return the format of a named file by its suffix alone."""
    inner = PurePath(path.stem) if path.suffix.lower() in COMPRESSED else path
    if (suffix := inner.suffix.lower()) in BY_SUFFIX:
        return BY_SUFFIX[suffix].name
    if (format := _format_if_named(suffix)) is not None:
        return format
    raise DataError(
        f"the name of {path} does not tell its format: expected one of {' '.join(BY_SUFFIX)}, also "
        f"with {' '.join(COMPRESSED)}; give it such an ending{_or_say(by)}"
    )


def _or_say(by: Said) -> str:
    word = said("--format", by)
    return "" if word is None else f", or say it with {word}"


def _format_if_named(suffix: str) -> str | None:
    """Return the format of files that are data only if the user names them."""
    return next((format.name for format in FORMATS.values() if suffix in format.also), None)


def _in_folder(root: Path, format: str | None, notes: list[str], by: Said) -> list[_File]:
    files: dict[str, list[_File]] = {}
    left_out: Counter[str] = Counter()
    homes, lists = _homes(root), {}
    for path in sorted(walk(root, NOT_DATA)):
        folder, kind = path.parent, _format_in_folder(path)
        if folder not in lists:
            lists[folder] = _saved(folder)
        if kind is None or not _is_listed(path, lists[folder]):
            left_out[path.suffix or "without suffix"] += 1
        elif not _is_inside(path, homes):
            left_out["links that lead out of it, or no plain files"] += 1
        elif FORMATS[kind].is_plain_text and path.stat().st_size == 0:
            left_out["empty"] += 1  # such as __init__.py
        else:
            split = split_of(path.name) or split_around(folder, root)
            files.setdefault(kind, []).append(_File(path, kind, split))
    inside = [path for path in sorted(walk(root, NOT_DATA)) if _is_inside(path, homes)]
    if all(FORMATS[kind].is_plain_text for kind in files):
        files |= _parallel(inside, root, beside_texts=bool(files))
    if not files and (texts := _without_suffix(inside, root)):
        files = {TXT.name: texts}
        left_out.pop("without suffix", None)
    kind = format or _format_of_folder(root, files, by)
    for other in files:
        if other != kind:
            left_out[other] += len(files[other])
    summary = ", ".join(f"{n} {reason}" for reason, n in left_out.most_common(5))
    if kind not in files:
        raise DataError(
            f"{root} holds no {kind or 'records'}: expected files ending in {' '.join(BY_SUFFIX)}, "
            f"found {summary or 'nothing'}; name the files"
        )
    if summary:
        notes.append(f"of {root}, {len(files[kind])} {kind} files are read; left out: {summary}")
    return _with_splits(_with_classes(files[kind], root))


def _with_classes(files: list[_File], root: Path) -> list[_File]:
    """Return texts with the folders that they are in, if these are two or more: their classes."""
    if not FORMATS[files[0].format].is_plain_text:
        return files
    around = [file.path.parent for file in files]
    names = [None if p == root or is_split(p.name) else p.name for p in around]
    if len({name for name in names if name is not None}) < 2:
        return files
    return [file._replace(folder=name) for file, name in zip(files, names, strict=True)]


def _with_splits(files: list[_File]) -> list[_File]:
    found = splits_by_libraries([file.path for file in files])
    return [
        file._replace(split=file.split or split) for file, split in zip(files, found, strict=True)
    ]


def _parallel(paths: Iterable[Path], root: Path, *, beside_texts: bool) -> dict[str, list[_File]]:
    """Return the files of a folder that are texts of several languages, by their format.

    Where the folder has other texts, these are left out for files whose names have a split, such as
    train.de and train.en: app.cs and app.ts are no texts of two languages.
    """
    files = []
    for stem, texts in parallel_texts(paths).items():
        split = split_of(texts[0].name) or split_around(stem.parent, root)
        if split is not None or not beside_texts:
            files.append(_File(texts[0], PARALLEL.name, split, beside=texts[1:]))
    return {PARALLEL.name: files} if files else {}


def _format_of_folder(root: Path, files: Mapping[str, list[_File]], by: Said) -> str | None:
    for rank in sorted({FORMATS[kind].rank for kind in files}):
        kinds = [kind for kind in FORMATS if kind in files and FORMATS[kind].rank == rank]
        if len(kinds) > 1:
            some = ", ".join(
                f"{len(files[kind])} {kind} ({files[kind][0][0].name})" for kind in kinds
            )
            raise DataError(
                f"{root} holds files of {len(kinds)} formats: {some}; name the files{_or_say(by)}"
            )
        if kinds:
            return kinds[0]
    return None


def _format_in_folder(path: Path) -> str | None:
    """Return a file's format if it is likely to be data, unlike README.txt or state.json."""
    if (name := format_of(path.name)) is not None:
        return name.partition(".")[0]
    suffix = path.suffix.lower()
    return None if suffix in BY_SUFFIX else _format_if_named(suffix)


def _saved(folder: Path) -> frozenset[str] | None:
    """Return the files of a data set that `datasets` saved in a folder; None if it saved none."""
    about = folder / "state.json"
    if not about.is_file() or not (folder / "dataset_info.json").is_file():
        return None
    files = read_json(about).get("_data_files")
    listed = [
        file.get("filename") if isinstance(file, dict) else None
        for file in (files if isinstance(files, list) else [])
    ]
    names = [name for name in listed if isinstance(name, str) and is_plain(name)]
    if not names or len(names) < len(listed):
        raise DataError(f"{about} does not list the files of a saved data set; save it again")
    if lost := [name for name in names if not (folder / name).exists()]:
        raise DataError(f"{folder} lacks {', '.join(lost[:3])}, which its state.json lists")
    return frozenset(names)


def _is_listed(path: Path, listed: frozenset[str] | None) -> bool:
    if listed is not None:
        return path.name in listed
    return not (path.suffix in ARROW.suffixes and path.name.startswith("cache-"))  # of Dataset.map


def _is_inside(path: Path, homes: Sequence[Path]) -> bool:
    """Return whether a path is a plain file that no link leads out of its folder for."""
    return path.is_file() and any(path.resolve().is_relative_to(home) for home in homes)


def _without_suffix(paths: Sequence[Path], root: Path) -> list[_File]:
    """Return the texts of a folder in which no file has a suffix, as in 20 Newsgroups."""
    if any(path.suffix for path in paths):
        return []
    return [
        _File(path, TXT.name, split_around(path.parent, root))
        for path in paths
        if not path.suffix and _is_text(path)
    ]


def _is_text(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.read(HEAD_BYTES)
    return bool(first.strip()) and b"\0" not in first


def _homes(root: Path) -> tuple[Path, ...]:
    """Return the folders in which files may be: the folder, and the blobs of its hub cache."""
    real = root.resolve()
    caches = [p.with_name("blobs") for p in (real, *real.parents) if p.name == "snapshots"]
    return real, *caches[:1]


def _unique(files: list[RecordFile]) -> Iterator[RecordFile]:
    """Yield each file once, under its first name; DataError if a file is in two splits."""
    by_path: dict[tuple[Path, str | None], RecordFile] = {}
    for file in files:
        first = by_path.setdefault((file.path.resolve(), file.member), file)
        if first is file:
            yield file
        elif first.split != file.split:
            raise DataError(
                f"{first.name} ({first.split}) and {file.name} ({file.split}) are the same file; "
                "what is trained on must not be measured on: leave one out"
            )
