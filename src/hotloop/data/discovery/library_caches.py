"""Read folders that libraries make: Hugging Face's two caches, saved data sets, token folders."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hotloop.core.storage.manifest import is_plain
from hotloop.data.discovery.results import DataFile, DataSet
from hotloop.data.readers.arrow import ARROW
from hotloop.data.readers.file_names import format_of, split_of
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.split_words import is_split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["PACKAGED", "hub", "is_hub", "made_folder"]

LARGEST_ABOUT = 4 << 20  # bytes: usually some KiB; the features of wide tables take more
# The datasets library's builders for plain files: their names do not identify the data.
PACKAGED = frozenset(
    ("arrow", "audiofolder", "csv", "generator", "imagefolder", "json", "parquet", "text", "xml")
)


def is_hub(folders: Collection[str]) -> bool:
    """Return whether a folder that contains these folders is a cache of huggingface_hub."""
    return any(name.startswith(("datasets--", "models--", "spaces--")) for name in folders)


def hub(folder: Path, note: Callable[[str], None]) -> Iterator[DataSet]:
    """Yield the data sets in a cache of huggingface_hub, through that library's own scan."""
    try:
        from huggingface_hub import scan_cache_dir
    except ImportError:
        note(f"{folder} was not read: pip install 'hotloop[hf]'")
        return
    try:
        cache = scan_cache_dir(folder)
    except (OSError, ValueError) as error:
        note(f"{folder} cannot be read: {error}")
        return
    for warning in cache.warnings:
        note(f"{folder}: {warning}")
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        if repo.repo_type == "dataset" and repo.revisions:
            yield _repository(repo)


def _repository(repo: Any) -> DataSet:
    newest = repo.refs.get("main") or max(repo.revisions, key=lambda r: r.last_modified)
    known = [(f, format_of(f.file_name)) for f in newest.files]
    data = [(f, format) for f, format in known if format is not None]
    places = {f: PurePath(f.file_path.relative_to(newest.snapshot_path)) for f, _ in data}
    configs = {config for place in places.values() if (config := _config(place))}
    files = []
    for file, format in sorted(data, key=lambda pair: places[pair[0]]):
        config = _config(places[file]) if len(configs) > 1 else None
        split = _split(places[file])
        files.append(
            DataFile(
                path=file.file_path,
                split=f"{config}/{split}" if config else split,
                format=format,
                bytes=file.size_on_disk,
                used=file.blob_last_accessed,
            )
        )
    suffixes = Counter(
        PurePath(f.file_name).suffix[1:] for f in newest.files if f.file_name[0] != "."
    )
    suffixes.pop("md", None)
    return DataSet(
        id=repo.repo_id,
        path=repo.repo_path,
        kind="hub",
        format=formats(files)
        or next((name for name, _ in suffixes.most_common(1) if name), "unknown"),
        files=tuple(files),
        splits=dict.fromkeys(file.split for file in files),
        bytes=repo.size_on_disk,
        last_used=repo.last_accessed,
    )


def _config(place: PurePath) -> str | None:
    """Return the folder that stands for a configuration: the first one, unless it is data/."""
    top = place.parts[0] if len(place.parts) > 1 else ""
    return top if top not in ("", "data") and not is_split(top) else None


def _split(place: PurePath) -> str:
    named = (split_of(part) for part in reversed(place.parts))
    return next((split for split in named if split is not None), "train")


def formats(files: Collection[DataFile]) -> str:
    """Return the formats of files: "csv.gz + jsonl"."""
    return " + ".join(sorted({file.format for file in files}))


def made_folder(folder: Path, names: Collection[str]) -> DataSet | None:
    """Return the data set in a folder that a library made, by its file names; else None."""
    try:
        if "about.json" in names:
            return _tokens(folder, _about(folder / "about.json"))
        if "dataset_dict.json" in names:
            return _saved(folder, _about(folder / "dataset_dict.json").get("splits"))
        if {"dataset_info.json", "state.json"} <= set(names):
            return _saved(folder, None)
        if "dataset_info.json" in names:
            return _built(folder, _about(folder / "dataset_info.json"))
    except (OSError, ValueError, RecursionError):
        return None  # damaged or unrelated: its files may still be data
    return None


def _about(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        data = stream.read(LARGEST_ABOUT + 1)
    value = json.loads(data) if len(data) <= LARGEST_ABOUT else None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no object")
    return value


def _files(folder: Path, split: str | None = None) -> list[DataFile]:
    """Return the files in a folder that a library wrote, by name."""
    files = []
    for path in sorted(folder.iterdir()):
        if path.is_file():
            named = split or split_of(path.name) or "train"
            format = format_of(path.name) or path.suffix[1:] or "unknown"
            files.append(DataFile.of(path, path.stat(), split=named, format=format))
    return files


def _data_set(folder: Path, files: list[DataFile], data: list[DataFile], **more: Any) -> DataSet:
    return DataSet(
        path=folder,
        files=tuple(data),
        bytes=sum(file.bytes for file in files),
        last_used=max((file.used for file in data or files), default=None),
        **more,
    )


def _tokens(folder: Path, about: dict[str, Any]) -> DataSet | None:
    """Return a folder that hotloop tokenised: characters of a corpus, or rows of a token store."""
    kind, splits = about.get("kind"), _dictionary(about.get("splits"))
    if kind not in ("characters", "tokens"):
        return None
    files = _files(folder)
    if kind == "characters":
        counts = {"train": about.get("train_tokens"), "validation": about.get("valid_tokens")}
    else:
        splits = {name: _dictionary(value) for name, value in splits.items() if is_plain(name)}
        counts = {name: about_split.get("rows") for name, about_split in splits.items()}
        for name in splits:
            files += _files(folder / name, name)
    return _data_set(
        folder,
        files,
        [file for file in files if file.path.suffix in (*ARROW.suffixes, ".bin")],
        id=str(folder),
        kind="hotloop-tokens",
        format=kind,
        splits={name: n if type(n) is int else None for name, n in counts.items()},
        unit="tokens" if kind == "characters" else "rows",
    )


def _saved(folder: Path, splits: object) -> DataSet:
    """Return a folder of datasets' save_to_disk; dataset_info.json may have an older form."""
    names = [name for name in splits if is_plain(name)] if isinstance(splits, list) else None
    files: list[DataFile] = []
    for name in names or [""]:
        state = _about(folder / name / "state.json")
        files += _files(folder / name, name or str(state.get("_split") or "train"))
    data = [file for file in files if file.format == ARROW.name and file.path.name[:6] != "cache-"]
    return _data_set(
        folder,
        files,
        data,
        id=str(folder),
        kind="folder",
        format=ARROW.name,
        splits=dict.fromkeys(file.split for file in data),
    )


def _built(folder: Path, info: dict[str, Any]) -> DataSet | None:
    """Return an entry of the datasets cache: <name>/<config>/<version>/<hash>/."""
    splits = _dictionary(info.get("splits"))
    if not splits or len(folder.parents) < 3:
        return None
    rows = {name: _dictionary(about).get("num_examples") for name, about in splits.items()}
    files = _files(folder)
    columnar = {format.name for format in FORMATS.values() if format.is_columnar}
    data = [file for file in files if file.format in columnar]
    name = folder.parents[2].name.replace("___", "/")
    config = str(info.get("config_name") or folder.parents[1].name)
    if name in PACKAGED:
        config = folder.parents[1].name
    return _data_set(
        folder,
        files,
        data,
        id=name,
        config=None if config == "default" else config,
        kind="datasets-cache",
        format=formats(data) or "unknown",
        splits={name: n if type(n) is int else None for name, n in rows.items()},
    )


def _dictionary(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
