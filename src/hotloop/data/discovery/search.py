"""Finds the data sets on this machine, what they lie on, and what in a project names them."""

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

SCHEMA = 1  # of Found.to_json; history: 1 (2026-11) first
MEASURING = 20.0  # seconds of reading for speeds; what is met later has none


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryResult:
    """What a search came to."""

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
    """Return the data sets in Hugging Face's caches, hotloop's own and the folders `roots`, and
    those that files of `project` (the working directory) name.

    Nothing is run, and nothing is written; the times of last use stay where the system allows it.
    Some MiB of each are read for a speed. `now` is a seam. Raises UsageError for a root that is not
    there.
    """
    project = Path(os.path.realpath(project or Path()))
    for root in roots:
        if not root.exists():
            raise UsageError(f"{root} is not there; name a folder or file to look into")
    looked = FolderScan(progress=progress)
    caches = [environment.hub, environment.datasets, environment.cache]
    sets: list[DataSet] = []
    for place in [*(path for path in caches if path.is_dir()), *map(_absolute, roots)]:
        sets += search(place, looked)
    progress(f"reading what names data in {project}")
    seen = words(project, looked.notes.append, ids={one.id for one in sets})
    for path in existing(seen, project):
        sets += search(path, looked)
    sets, missing = _referred(sets, seen, project)
    sets = _measured(_counted(sets, looked), progress, now)
    return DiscoveryResult(
        project=project,
        data_sets=tuple(sets),
        missing=missing,
        notes=tuple(looked.notes),
    )


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _referred(
    sets: list[DataSet], seen: Sequence[Word], project: Path
) -> tuple[list[DataSet], tuple[Missing, ...]]:
    """Return the data sets with the places that name them, and what is named and not there.

    A file of records that names data sets is a manifest, and leaves the list. What a file of a data
    set says that names nothing is its own affair.
    """
    index = Index(sets)
    of_file = {os.path.realpath(f.path): n for n, one in enumerate(sets) for f in one.files}
    places: dict[int, dict[Reference, None]] = defaultdict(dict)
    absent: dict[Missing, int | None] = {}
    manifests: set[int] = set()
    for word in seen:
        own = of_file.get(str(word.file))  # links are not followed there
        named = index.named(word, project) - {own}
        for n in named:
            places[n][word.reference(project)] = None
        if named and own is not None and len(sets[own].files) == 1:
            manifests.add(own)
        if not named and is_missing(word, project):
            absent[Missing(what=word.text, place=word.reference(project))] = own
    kept = [
        replace(one, referred_by=tuple(places[n]))
        for n, one in enumerate(sets)
        if n not in manifests
    ]
    return kept, tuple(one for one, own in absent.items() if own is None or own in manifests)


def _counted(sets: Sequence[DataSet], looked: FolderScan) -> list[DataSet]:
    """Return the data sets with the rows that are cheap to count."""
    budget, found = ReadBudget(), []
    for one in sets:
        if not any(rows is None for rows in one.splits.values()) or one.unit != "rows":
            found.append(one)
            continue
        looked.progress(f"counting the rows of {one.id}")
        splits: dict[str, int | None] = dict.fromkeys(one.splits, 0)
        for file in one.files:
            before = splits[file.split]
            rows = None if before is None else count_rows(file, budget)
            splits[file.split] = None if before is None or rows is None else before + rows
        found.append(replace(one, splits=splits))
    looked.notes += budget.faults
    if budget.without:
        what = " and ".join(sorted(budget.without))
        looked.notes.append(f"rows of some files need {what}: pip install 'hotloop[data]'")
    return found


def _measured(
    sets: Sequence[DataSet], progress: Callable[[str], None], now: Callable[[], float]
) -> list[DataSet]:
    """Return the data sets with the speed of what they lie on."""
    found, began = [], now()
    for one in sets:
        largest = max(one.files, key=lambda file: file.bytes, default=None)
        storage = Storage(kind=storage_kind(one.path if largest is None else largest.path))
        if largest is not None and now() - began < MEASURING:
            progress(f"reading some of {one.id}")
            with contextlib.suppress(OSError):  # it went since
                speed, cold = read_speed(largest.path)
                storage = replace(storage, read=speed, cold=cold)
        found.append(replace(one, storage=storage))
    return found
