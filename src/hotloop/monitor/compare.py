"""Compares two records of hotloop monitor: what changed, and what makes them hard to compare."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import DataError
from hotloop.core.storage.files import read_json
from hotloop.monitor.record import SCHEMA
from hotloop.monitor.series import SeriesStats, headline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["MonitorComparison", "ReadingChange", "Watched", "compare_records", "read_record"]

_FEWEST: Final = 10  # samples of a reading, below which nothing is said of a change
_HOST: Final = ("name", "cores", "host_memory_bytes")  # of Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A record of hotloop monitor, as far as a comparison needs it."""

    name: str  # of the file
    watched: str  # the machine, a process, a run
    seconds: float
    host: Mapping[str, Any]
    gpus: Sequence[Mapping[str, Any]]
    stats: Mapping[str, SeriesStats]
    samples: Sequence[Mapping[str, Any]]

    def values(self, name: str) -> list[float]:
        """Return the values of a reading, one for each sample that has it."""
        return [float(sample[name]) for sample in self.samples if name in sample]

    def others(self) -> list[str]:
        """Return the programs that held memory of a GPU, and were not what was watched."""
        held = [
            process
            for sample in self.samples
            for key, processes in sample.items()
            if key.endswith("_held_by")
            for process in processes
        ]
        names = (
            f"{process.get('name') or 'a program of another user'} ({process.get('pid')})"
            for process in held
            if not process.get("watched")
        )
        return list(dict.fromkeys(names))

    def slowed(self) -> list[str]:
        """Return why GPUs were slowed."""
        reasons = (
            reason
            for sample in self.samples
            for key, found in sample.items()
            if key.endswith("_slowed_by")
            for reason in found
        )
        return list(dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingChange:
    """One reading in both records."""

    name: str
    before: SeriesStats
    after: SeriesStats
    is_apart: bool | None  # whether the middle halves do not overlap; None: too few samples

    @property
    def ratio(self) -> float | None:
        """Return the mean after over the mean before; None where that was 0."""
        return self.after.mean / self.before.mean if self.before.mean else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorComparison:
    """What two records have in common."""

    changes: Sequence[ReadingChange]
    only: Mapping[str, str]  # reading -> the file that alone has it
    notes: Sequence[str]  # what makes the records unlike


def read_record(path: Path) -> Watched:
    """Read what hotloop monitor --output wrote. Raises DataError for anything else."""
    value: Any = read_json(path)
    if value.get("kind") != "monitor" or value.get("schema") != SCHEMA:
        raise DataError(f"{path}: expected a record of hotloop monitor --output of this version")
    try:
        summary, machine = value["summary"], value["machine"]
        stats = {
            str(name): SeriesStats(
                mean=float(one["mean"]),
                low=float(one["min"]),
                high=float(one["max"]),
                p95=float(one["p95"]),
                n=int(one["n"]),
            )
            for name, one in summary.items()
        }
        return Watched(
            name=str(path),
            watched=str(value["watched"]),
            seconds=float(value["seconds"]),
            host=dict(machine["host"]),
            gpus=[dict(gpu) for gpu in machine["gpus"]],
            stats=stats,
            samples=[_checked(sample) for sample in value["samples"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: the record is damaged: {type(error).__name__} {error}") from error


def _checked(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample. Raises TypeError or ValueError where a value is of another kind."""
    checked = dict(sample)
    for key, value in checked.items():
        if key.endswith("_held_by"):
            checked[key] = [dict(process) for process in value]
        elif key.endswith("_slowed_by"):
            checked[key] = [str(reason) for reason in value]
        elif key not in ("run_phase", "run_idle"):
            checked[key] = float(value)
    return checked


def compare_records(before: Watched, after: Watched) -> MonitorComparison:
    """Compare the readings that both records have, and say what is unlike."""
    names = [name for name in before.stats if name in after.stats and headline(name)]
    changes = [
        ReadingChange(
            name=name,
            before=before.stats[name],
            after=after.stats[name],
            is_apart=_apart(before.values(name), after.values(name)),
        )
        for name in names
    ]
    only = {
        name: one.name
        for one, other in ((before, after), (after, before))
        for name in one.stats
        if name not in other.stats and headline(name)
    }
    return MonitorComparison(changes=changes, only=only, notes=_unlike(before, after))


def _apart(first: Sequence[float], second: Sequence[float]) -> bool | None:
    """Return whether the middle halves of two series do not overlap."""
    if min(len(first), len(second)) < _FEWEST:
        return None
    (low, _, high), (other_low, _, other_high) = quantiles(first, n=4), quantiles(second, n=4)
    return high < other_low or other_high < low


def _unlike(before: Watched, after: Watched) -> list[str]:
    notes = []
    if _names(before.gpus) != _names(after.gpus):
        gpus = (", ".join(_names(one.gpus)) or "none" for one in (before, after))
        notes.append(f"other GPUs: before {next(gpus)}; after {next(gpus)}")
    for key in _HOST:
        first, second = before.host.get(key), after.host.get(key)
        if first != second:
            notes.append(f"another machine: {key} {first} before, {second} after")
    for when, one in (("before", before), ("after", after)):
        if others := one.others():
            notes.append(f"other programs on the GPU {when}: {', '.join(others)}")
        if slowed := one.slowed():
            notes.append(f"GPU slowed {when}: {', '.join(slowed)}")
    return notes


def _names(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(gpu.get("name")) for gpu in gpus]
