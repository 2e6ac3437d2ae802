"""Caches memory forecasts on disk: a new one loads torch's compiler, a cached one takes 1 ms.

An entry is one JSON file, named by the digest of everything that determines the forecast: the
caller's description of the job and its plan, torch with its switches, and hotloop's source files.
An entry that is damaged or has a different key counts as absent and is replaced.
Entry history: schema 1 (2026-11) made, key, forecast, check.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
from dataclasses import fields
from typing import TYPE_CHECKING

import torch

from hotloop.core.digest import digest
from hotloop.core.errors import DataError, WriteError
from hotloop.core.package import ROOT, __version__
from hotloop.core.storage.files import DISK, Disk, make_folder, read_json, write_json
from hotloop.jobs.forecast.memory_forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["remembered"]

SCHEMA = 1
_ATTENTION: tuple[Callable[[], bool], ...] = (  # the CPU's attention obeys these two as well
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
)
_FIELDS = {field.name for field in fields(Forecast)} - {"made"}


def remembered(
    folder: Path,
    key: Mapping[str, object],
    make: Callable[[], Forecast],
    *,
    disk: Disk = DISK,
) -> Forecast:
    """Return the forecast for `key` from the cache in `folder`, or make one and store it.

    `key` (JSON values) holds all properties of the job and its plan that determine the memory;
    versions and switches are added here. An unwritable folder is not an error. Raises the errors of
    `make`.
    """
    whole = json.loads(_text({**key, **_surroundings()}))  # turns tuples into lists
    path = folder / f"{digest(_text(whole))}.json"
    if (known := _read(path, whole)) is not None:
        return known
    forecast = make()
    entry = {
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "key": whole,
        "forecast": {name: getattr(forecast, name) for name in _FIELDS},
    }
    with contextlib.suppress(WriteError):  # stored or not, the forecast is the same
        make_folder(folder, disk=disk)
        write_json(path, {"schema": SCHEMA, **entry, "check": digest(_text(entry))}, disk=disk)
    return forecast


def _read(path: Path, whole: object) -> Forecast | None:
    """Return the stored forecast, or None if there is no sound entry with this key."""
    try:
        entry_file = read_json(path)
    except DataError:
        return None
    entry = {name: entry_file.get(name) for name in ("made", "key", "forecast")}
    if entry_file.get("schema") != SCHEMA or entry_file.get("check") != digest(_text(entry)):
        return None
    made, forecast = entry["made"], entry["forecast"]
    if entry["key"] != whole or not isinstance(forecast, dict) or forecast.keys() != _FIELDS:
        return None
    return Forecast(**forecast, made=str(made))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _surroundings() -> dict[str, object]:
    """Return what determines a forecast besides its job: versions, sources and torch's switches."""
    return {
        "hotloop": [__version__, _sources()],
        "torch": [
            str(torch.__version__),
            torch.backends.cpu.get_cpu_capability(),
            str(torch.get_default_dtype()),
            torch.are_deterministic_algorithms_enabled(),
            *(enabled() for enabled in _ATTENTION),
        ],
    }


@functools.cache
def _sources() -> str:
    """Return a digest of the names, sizes and modification times of this package's sources."""
    return digest(*sorted(_stats(ROOT)))


def _stats(folder: str | Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _stats(entry.path)
            elif entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{entry.path}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
