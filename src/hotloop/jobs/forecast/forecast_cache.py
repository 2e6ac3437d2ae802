"""Keeps memory forecasts on the disk: making one loads torch's compiler, reading one takes 1 ms.

An entry is one JSON file, named by the digest of everything that decides the forecast: what the
caller says of the job and its plan, torch with its switches, and hotloop's own source files. What
is not whole and exactly that counts as absent and is replaced.
Entry history: schema 1 (2026-11) made, key, forecast, check.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

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
    """Return the forecast of `key` (JSON values) from `folder`, or one that is made and kept there.

    `key` says all of the job and its plan that decides the memory; the rest is added here. A
    folder that cannot be written is no error. Raises what `make` raises.
    """
    whole = _plain({**key, **_surroundings()})
    path = folder / f"{digest(_text(whole))}.json"
    if (known := _read(path, whole)) is not None:
        return known
    forecast = make()
    entry = {
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "key": whole,
        "forecast": {name: getattr(forecast, name) for name in _FIELDS},
    }
    with contextlib.suppress(WriteError):  # kept or not, it is the same forecast
        make_folder(folder, disk=disk)
        write_json(path, {"schema": SCHEMA, **entry, "check": digest(_text(entry))}, disk=disk)
    return forecast


def _read(path: Path, whole: object) -> Forecast | None:
    """Return what is kept, or None when there is no entry that is sound and of this key."""
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


def _plain(value: object) -> Any:
    """Return a value as it comes back from JSON, where tuples are lists."""
    return json.loads(json.dumps(value))


def _surroundings() -> dict[str, object]:
    """Return what decides a forecast besides its job: versions, sources and torch's switches."""
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
    """Return what changes when a source file of this package does: names, sizes and times."""
    return digest(*sorted(_stats(ROOT)))


def _stats(folder: str | Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _stats(entry.path)
            elif entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{entry.path}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
