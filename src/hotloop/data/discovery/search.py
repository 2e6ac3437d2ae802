"""Find the data sets on this machine, the storage under them, and the references of a project."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.codec import to_json
from hotloop.core.env import ENV, Environment
from hotloop.core.errors import UsageError
from hotloop.data.discovery.folder_scan import FolderScan, search
from hotloop.data.discovery.project_references import Word, words
from hotloop.data.discovery.resolve_references import Index, existing, is_missing
from hotloop.data.discovery.results import DataSet, Missing, Reference
from hotloop.data.discovery.row_count import ReadBudget, count_rows
from hotloop.machine.clock import clock
from hotloop.machine.file_storage import Storage, read_speed, storage_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DiscoveryResult", "find"]

SCHEMA = 1  # of DiscoveryResult.to_json; history: 1 (2026-11) first
MEASURING = 20.0  # seconds of reading for speeds; later data sets get none


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryResult:
    """The result of a search."""

    project: Path  # whose files were read for references
    data_sets: tuple[DataSet, ...]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]  # what was not read, and why

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return to_json(self, schema=SCHEMA)


def find(
    roots: Sequence[Path] = (),
    *,
    project: Path | None = None,
    environment: Environment = ENV,
    progress: Callable[[str], None] = lambda text: None,
    now: Callable[[], float] = clock,
) -> DiscoveryResult:
    """Return the data sets in Hugging Face's caches, hotloop's own and the folders `roots`.

    The result also has those that files of `project` (default: the working directory) name. No code
    runs and nothing is written; times of last use stay unchanged where the system allows it. Some
    MiB of each data set are read to measure the speed. `now` is a seam. Raises UsageError for a
    root that does not exist.
    """
    project = Path(os.path.realpath(project or Path()))
    for root in roots:
        if not root.exists():
            raise UsageError(f"{root} is not there; name a folder or file to look into")
    scan = FolderScan(progress=progress)
    caches = [environment.hub, environment.datasets, environment.cache]
    sets: list[DataSet] = []
    for place in [*(path for path in caches if path.is_dir()), *map(_absolute, roots)]:
        sets += search(place, scan)
    progress(f"reading what names data in {project}")
    project_words = words(project, scan.notes.append, ids={data_set.id for data_set in sets})
    for path in existing(project_words, project):
        sets += search(path, scan)
    sets, missing = _with_references(sets, project_words, project)
    sets = _with_speeds(_with_row_counts(sets, scan), progress, now)
    return DiscoveryResult(
        project=project,
        data_sets=tuple(sets),
        missing=missing,
        notes=tuple(scan.notes),
    )


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _with_references(
    sets: list[DataSet], project_words: Sequence[Word], project: Path
) -> tuple[list[DataSet], tuple[Missing, ...]]:
    """Return the data sets with the places that name them, and the names that match none.

    A file of records that names data sets is a manifest and leaves the list. Unmatched names inside
    the files of a data set are ignored.
    """
    index = Index(sets)
    of_file = {os.path.realpath(f.path): n for n, data in enumerate(sets) for f in data.files}
    places: dict[int, dict[Reference, None]] = defaultdict(dict)
    absent: dict[Missing, int | None] = {}
    manifests: set[int] = set()
    for word in project_words:
        owner = of_file.get(str(word.file))  # the search for words follows no links
        named = index.named(word, project) - {owner}
        for n in named:
            places[n][word.reference(project)] = None
        if named and owner is not None and len(sets[owner].files) == 1:
            manifests.add(owner)
        if not named and is_missing(word, project):
            absent[Missing(what=word.text, place=word.reference(project))] = owner
    data_sets = [
        replace(data_set, referred_by=tuple(places[n]))
        for n, data_set in enumerate(sets)
        if n not in manifests
    ]
    return data_sets, tuple(
        item for item, owner in absent.items() if owner is None or owner in manifests
    )


def _with_row_counts(sets: Sequence[DataSet], scan: FolderScan) -> list[DataSet]:
    """Return the data sets with the row counts that are cheap to get."""
    budget, data_sets = ReadBudget(), []
    for data_set in sets:
        if not any(rows is None for rows in data_set.splits.values()) or data_set.unit != "rows":
            data_sets.append(data_set)
            continue
        scan.progress(f"counting the rows of {data_set.id}")
        splits: dict[str, int | None] = dict.fromkeys(data_set.splits, 0)
        for file in data_set.files:
            before = splits[file.split]
            rows = None if before is None else count_rows(file, budget)
            splits[file.split] = None if before is None or rows is None else before + rows
        data_sets.append(replace(data_set, splits=splits))
    scan.notes += budget.faults
    if budget.without:
        packages = " and ".join(sorted(budget.without))
        scan.notes.append(f"rows of some files need {packages}: pip install 'hotloop[data]'")
    return data_sets


def _with_speeds(
    sets: Sequence[DataSet], progress: Callable[[str], None], now: Callable[[], float]
) -> list[DataSet]:
    """Return the data sets with the kind and read speed of their storage."""
    data_sets, began = [], now()
    for data_set in sets:
        largest = max(data_set.files, key=lambda file: file.bytes, default=None)
        storage = Storage(kind=storage_kind(data_set.path if largest is None else largest.path))
        if largest is not None and now() - began < MEASURING:
            progress(f"reading some of {data_set.id}")
            with contextlib.suppress(OSError):  # the file was removed meanwhile
                speed, cold = read_speed(largest.path)
                storage = replace(storage, read=speed, cold=cold)
        data_sets.append(replace(data_set, storage=storage))
    return data_sets
