"""Find hidden wall time in a training log: the time between records that no record accounts for.

A record that gives its time and the duration of its epoch hides whatever else happened since the
previous record: saving, evaluating, sampling, reading data. In one of the five projects that was
76 % of the wall time.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.core.finding import ABSTAIN, Diagnosis, Finding, SourceLocation, by_share
from hotloop.core.measurement import Measurement
from hotloop.core.units import duration
from hotloop.rules import judged
from hotloop.rules.base import code_edit, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Interval", "Logged", "judge_log"]

# Names as loggers write them, in lower case, without a prefix that ends in "/" or ".".
MOMENTS = ("timestamp", "time", "datetime", "date", "wall_time", "wall", "ts", "asctime", "created")
_PASSED = (
    "elapsed",
    "elapsed_time",
    "runtime",
    "wall_time",
    "wall",
    "time",
)  # the values tell which meaning applies
SINCE_START = (*_PASSED, "elapsed_s", "total_time", "relative_time")
_EPOCH = ("epoch_time", "epoch_seconds", "epoch_duration", "time_per_epoch")
WHOLE = (*_EPOCH, "duration", "took", "seconds", "secs", *_PASSED)
EACH_STEP = ("step_time", "iter_time", "iteration_time", "time_per_step", "seconds_per_step", "dt")
_PART = re.compile(r"(train|val|valid|validation|eval|test|save|data|load)\w*_(time|seconds|s)")
_UNITS = {"_ms": 1e-3, "_s": 1.0, "_sec": 1.0, "_secs": 1.0, "_seconds": 1.0, "_min": 60.0}
EPOCH_SECONDS, EPOCH_MS = 1e8, 1e11  # 1973 as seconds since 1970, and as milliseconds
MOST_BYTES = 256 << 20
SHOWN = 3  # most records named in a finding
HIDDEN = 0.20  # share from which it is a warning, as in rule S3
NEEDED = (
    'each record needs when it was written ("timestamp": time.time() or ISO 8601) and what it '
    'claims to have taken ("epoch_time": seconds)'
)

Record = tuple[int, "Mapping[str, object]"]  # line, values by lower-case name


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The interval from one record to the next."""

    line: int  # of the later record, from 1
    name: str  # "epoch 3"
    wall: float  # seconds between the two
    claimed: float  # seconds, by the later record

    @property
    def hidden(self) -> float:
        """The seconds that no record accounts for."""
        return max(0.0, self.wall - self.claimed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The intervals and the diagnosis of a log."""

    path: Path
    moment: str  # the key of the time of a record
    claim: str  # the keys of the duration of a record
    intervals: Sequence[Interval]
    breaks: int  # number of run starts after the first; those intervals are left out
    diagnosis: Diagnosis

    @property
    def wall(self) -> float:
        """The seconds between the records."""
        return sum(interval.wall for interval in self.intervals)

    @property
    def hidden(self) -> float:
        """The seconds of `wall` that no record accounts for."""
        return sum(interval.hidden for interval in self.intervals)


def judge_log(path: Path) -> Logged:
    """Judge a log of JSON lines, or CSV with a header; raise DataError on missing fields."""
    records = _records(path)
    when, moments = _moments(path, records)
    how_long, claims = _claims(path, records, when)
    usable = [n for n in range(len(records)) if moments[n] is not None and claims[n] is not None]
    intervals, breaks = _intervals(records, moments, claims, usable)
    if not intervals:
        raise DataError(
            f"{path}: {len(usable)} record(s) have both {when!r} and {how_long!r}; at least two "
            "of one run are needed, for the time between them is what is looked at"
        )
    wall, claimed = (sum(getattr(i, name) for i in intervals) for name in ("wall", "claimed"))
    if claimed > 1.05 * wall + 0.5:
        raise DataError(
            f"{path}: {how_long!r} claims {duration(claimed)}, but only {duration(wall)} passed by "
            f"{when!r}: expected seconds of one process. Is it in other units, or did several "
            "processes write this file?"
        )
    return Logged(
        path=path,
        moment=when,
        claim=how_long,
        intervals=intervals,
        breaks=breaks,
        diagnosis=_diagnosis(path, when, how_long, intervals),
    )


# Reading.


def _records(path: Path) -> list[Record]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} has more than {MOST_BYTES >> 20} MiB: cut out one run")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {path}: {error}; a log of JSON lines or CSV is expected"
        ) from error
    records = list(_json_lines(path, text) if text.lstrip()[:1] == "{" else _rows(text))
    if not records:
        raise DataError(f"{path} holds no records: JSON lines, or CSV with a header, are expected")
    return records


def _json_lines(path: Path, text: str) -> Iterator[Record]:
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not text.endswith("\n"):
                return  # the last line is incomplete: the log is still being written
            raise DataError(f"{path}:{number}: expected a JSON object a line: {error}") from error
        if isinstance(record, dict):
            yield number, {_short(str(key)): value for key, value in record.items()}


def _rows(text: str) -> Iterator[Record]:
    reader = csv.reader(io.StringIO(text))
    header = [_short(name) for name in next(reader, [])]
    for row in reader:
        if row:
            yield reader.line_num, dict(zip(header, row, strict=False))


def _short(key: str) -> str:
    return re.split(r"[/.]", key.strip().lower())[-1].lstrip("_")


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _instant(value: object) -> float | None:
    """Return seconds since 1970 of a number or an ISO 8601 text."""
    number = _number(value)
    if number is not None:
        return None if number < EPOCH_SECONDS else number / (1e3 if number >= EPOCH_MS else 1)
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value.strip().replace(",", ".")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


# Which key has which meaning.


def _moments(path: Path, records: Sequence[Record]) -> tuple[str, list[float | None]]:
    """Return the key of the time at which a record was written, and these times in seconds."""
    for key in MOMENTS:
        moments = [_instant(values.get(key)) for _, values in records]
        known = [moment for moment in moments if moment is not None]
        if len(known) >= 2 and max(known) > min(known):  # a date alone does not change
            return key, moments
    for key in SINCE_START:
        moments = [_number(values.get(key)) for _, values in records]
        if _is_elapsed([moment for moment in moments if moment is not None]):
            return key, moments
    keys = ", ".join(list(dict.fromkeys(key for _, values in records for key in values))[:12])
    raise DataError(f"{path}: no timestamps in {len(records)} records ({keys}): {NEEDED}")


def _is_elapsed(values: Sequence[float]) -> bool:
    """Whether values are seconds since a start, not durations that happen to rise."""
    rises = all(a < b for a, b in itertools.pairwise(values))
    return len(values) >= 3 and rises and values[-1] - values[0] > 0.5 * values[0]


def _claims(path: Path, records: Sequence[Record], when: str) -> tuple[str, list[float | None]]:
    """Return the key of the duration that a record claims, and the durations in seconds."""
    names = Counter(key for _, values in records for key in values)
    for key, scale in _spelled(WHOLE, names):
        claims = [_seconds(values.get(key), scale) for _, values in records]
        if key != when and sum(seconds is not None for seconds in claims) >= 2:
            return key, claims
    part_keys = [key for key in names if key != when and _PART.fullmatch(key)]
    if part_keys:
        return " + ".join(part_keys), [_sum(values, part_keys) for _, values in records]
    for key, scale in _spelled(EACH_STEP, names):
        claims = _claims_by_step(records, key, scale)
        if sum(seconds is not None for seconds in claims) >= 2:
            return key, claims
    raise DataError(
        f"{path}: {when!r} says when, but no record says how long its part took: {NEEDED}"
    )


def _spelled(keys: Sequence[str], names: Counter[str]) -> Iterator[tuple[str, float]]:
    """Yield the `keys` that exist, with or without a unit suffix, and the unit in seconds."""
    for key in keys:
        for ending, scale in {"": 1.0, **_UNITS}.items():
            if key + ending in names:
                yield key + ending, scale


def _seconds(value: object, scale: float) -> float | None:
    number = _number(value)
    return None if number is None or number < 0 or number >= EPOCH_SECONDS else number * scale


def _sum(values: Mapping[str, object], keys: Sequence[str]) -> float | None:
    durations = [seconds for key in keys if (seconds := _seconds(values.get(key), 1.0)) is not None]
    return sum(durations) if durations else None


def _claims_by_step(records: Sequence[Record], key: str, scale: float) -> list[float | None]:
    """Return the seconds per step times the steps since the previous record."""
    claims: list[float | None] = []
    before: float | None = None
    for _, values in records:
        seconds, step = _seconds(values.get(key), scale), _position(values)
        steps = step - before if step is not None and before is not None and step > before else 1
        claims.append(None if seconds is None else seconds * steps)
        before = step if seconds is not None else before
    return claims


def _position(values: Mapping[str, object]) -> float | None:
    numbers = (
        _number(values.get(key)) for key in ("step", "global_step", "iter", "iteration", "epoch")
    )
    return next((number for number in numbers if number is not None), None)


# Judging.


def _intervals(
    records: Sequence[Record],
    moments: Sequence[float | None],
    claims: Sequence[float | None],
    usable: Sequence[int],
) -> tuple[list[Interval], int]:
    """Return the intervals within runs, and the number of breaks: places where the count falls."""
    intervals, breaks = [], 0
    for before, index in itertools.pairwise(usable):
        began, ended, claimed = moments[before], moments[index], claims[index]
        assert began is not None
        assert ended is not None
        assert claimed is not None
        line, values = records[index]
        earlier, now = _position(records[before][1]), _position(values)
        restarted = earlier is not None and now is not None and now < earlier
        if restarted or ended < began:
            breaks += 1
            continue
        name = next((f"{key} {values[key]}" for key in ("epoch", "step") if key in values), "")
        intervals.append(
            Interval(
                line=line, name=name or f"record {index + 1}", wall=ended - began, claimed=claimed
            )
        )
    return intervals, breaks


def _diagnosis(path: Path, when: str, how_long: str, intervals: Sequence[Interval]) -> Diagnosis:
    wall, hidden = sum(i.wall for i in intervals), sum(i.hidden for i in intervals)
    share = hidden / wall if wall else 0.0
    finding = _finding(path, how_long, intervals, share)
    return Diagnosis(
        findings=[judged(finding)] if share >= ABSTAIN else [],
        wall={"claimed": wall - hidden, "hidden": hidden},
        steps=0,
        step_time=None,
        not_checked=[
            f"what runs in the hidden time: the log does not say; {when!r} says when records were "
            "written, and before the first one nothing is known",
        ],
        own_time=0.0,
    )


def _finding(path: Path, how_long: str, intervals: Sequence[Interval], share: float) -> Finding:
    wall, hidden = sum(i.wall for i in intervals), sum(i.hidden for i in intervals)
    most = sorted(intervals, key=lambda interval: -interval.hidden)[:SHOWN]
    return Finding(
        rule="S3 hidden_wall",
        claim=f"{share:.0%} of the wall time ({duration(hidden)} of {duration(wall)}) passes "
        f"between the records and is in no {how_long!r}: something runs outside their timer",
        severity=by_share(share, warn=HIDDEN, critical=2 * HIDDEN),
        share=share,
        ceiling=wall / (wall - hidden) if wall > hidden else None,
        places=[SourceLocation(file=str(path), line=interval.line) for interval in most],
        evidence={
            "hidden per record": Measurement(
                unit="s", readings=tuple(interval.hidden for interval in intervals)
            ),
            "spread": _spread(intervals),
            **{
                f"most, {i.name} (line {i.line})": f"{duration(i.hidden)} of {duration(i.wall)}"
                for i in most
            },
        },
        remedies=[
            option("hotloop doctor train.py shows what it is, with the line"),
            code_edit("time the whole epoch: saving and evaluating too"),
        ],
    )


def _spread(intervals: Sequence[Interval]) -> str:
    """Return a sentence on how many records hold 80 % of the hidden time."""
    hidden = sorted((interval.hidden for interval in intervals), reverse=True)
    reached = itertools.accumulate(hidden)
    enough = next((n for n, s in enumerate(reached, 1) if s >= 0.8 * sum(hidden)), len(hidden))
    return f"{enough} of {len(hidden)} records hold 80 % of it"
