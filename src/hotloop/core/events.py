"""The event file of a run, and its steps as report, doctor and monitor read them.

One JSON object per line. Every line has `v` (schema), `kind`, `step` and `t` (seconds since this
process began the run, monotonic). Kinds:

    session       a process starts or resumes: at (UTC), pid
    step          one optimizer step: wall and phases in seconds, clock, values, position
    eval, save    a validation, a checkpoint: wall (seconds the loop waited) and values; a save
                  also has durable: seconds until it would have outlived a power loss
    reading       memory_bytes, utilisation (0..1) and tokens_per_s, now and then; null is unknown
    resumed_from  all steps after `step` are void: they were lost or will be repeated; so are
                  validations after `evaluated`
    note          something a reader must know: text
    end           why the process stopped, and its wall time by row in seconds

Schema history: 1 (2026-11) first.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hotloop.core.errors import DataError
from hotloop.core.measurement import Measurement

__all__ = [
    "PHASES",
    "SCHEMA",
    "WARMUP_STEPS",
    "Event",
    "StepTrace",
    "event_line",
    "finite",
    "newest_step",
    "read_event",
    "read_events",
    "read_lines",
    "steady",
    "step_line",
    "step_time",
    "steps",
    "surviving",
]

SCHEMA = 1
# "exchange" is the time that a rank waits for other ranks and for communication.
PHASES = ("data", "forward", "backward", "exchange", "update")
WARMUP_STEPS = 3  # allocation, cache fills and lazy initialisation happen in the first steps

_FIRST = 16  # first steps of a process, which are never merged: they are the warm-up
_TOLD = 3  # lines that are no events are named individually, up to this many
_END = 1 << 18  # bytes: some 900 steps
_MOST, _HUGE = 1 << 53, 1e300  # of steps and tokens; of other numbers
# Fields that are numbers if present; "wall" of an end event is a table.
_NUMBERS = frozenset({
    "t", "loss", "durable", "bytes", "evaluated", "memory_bytes", "utilisation", "tokens_per_s",
    "norm", "lr"
})  # fmt: skip

Event = Mapping[str, object]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One optimizer step. Phases nest inside `wall` and may leave a rest."""

    step: int  # 1 for the first
    nth: int  # step of its process: 1 for the first after a start or resume
    steps: int = 1  # steps merged into it in a long log: sums, and the mean loss
    rank: int
    clock: str  # "host": when the host went on; "device": when the device was done
    wall: float  # seconds
    phases: Mapping[str, float]  # seconds
    loss: float  # mean over the step's targets
    norm: float | None  # gradient norm before clipping; None when it was not computed
    learning_rate: float
    epoch: int
    samples: int  # of this step
    tokens: int
    targets: int
    ids: str  # digest of the sample ids, in order

    def share(self, phase: str) -> float:
        """Return the part of the step's wall time that `phase` took, 0..1."""
        return self.phases.get(phase, 0.0) / self.wall if self.wall else 0.0


def finite(value: object) -> float | None:
    """Return a value of an event as a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        return None
    return float(value)


def event_line(kind: str, *, step: int, t: float, **fields: object) -> str:
    """Return an event as a JSON line without its newline. Raises ValueError for NaN."""
    return json.dumps(
        {"v": SCHEMA, "kind": kind, "step": step, "t": round(t, 6), **fields},
        separators=(",", ":"),
        allow_nan=False,
    )


def step_line(
    step: int,
    *,
    t: float,
    clock: str,
    phases: Mapping[str, float],
    loss: float,
    norm: float | None,
    learning_rate: float,
    epoch: int,
    first: int,
    samples: int,
    tokens: int,
    targets: int,
    ids: str,
) -> str:
    """Return a step event like `event_line`, in a fifth of the time, because every step writes one.

    Times are in seconds; `loss`, `norm` and `learning_rate` must be finite. Python's float repr is
    JSON.
    """
    spent = "".join(f'"{name}":{phases[name]:.7f},' for name in PHASES if name in phases)
    return (
        f'{{"v":{SCHEMA},"kind":"step","step":{step},"t":{t:.6f},"clock":"{clock}",'
        f'"wall":{sum(phases.values()):.7f},{spent}"loss":{loss!r},'
        f'"norm":{"null" if norm is None else repr(norm)},"lr":{learning_rate!r},"epoch":{epoch},'
        f'"first":{first},"samples":{samples},"tokens":{tokens},"targets":{targets},"ids":"{ids}"}}'
    )


def _parse(path: Path) -> Iterator[Event]:
    try:
        with path.open("rb") as stream:
            whole = (line for line in stream if line.endswith(b"\n"))  # without a torn one
            yield from read_lines(whole, str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_lines(lines: Iterable[bytes], place: str) -> Iterator[Event]:
    """Yield the events of complete lines; for a line that is no event, yield a note.

    Such a note has `skipped`, the number of lines. Raises DataError if the first line has another
    schema: another version wrote the file.
    """
    good, bad, last, t = 0, 0, 0, 0.0
    for number, line in enumerate(lines, 1):
        where = f"{place}:{number}"
        try:
            event = read_event(line, where)
        except _SchemaError:
            if not good:
                raise
            why: str | None = f"{where} has another schema"
        except DataError as error:
            why = str(error)
        else:
            why = _fault(event, where)
        if why is None:
            good, last = good + 1, _int(event, "step")
            t = _float(event, "t") if "t" in event else t
            yield event
            continue
        bad += 1
        if bad <= _TOLD:
            yield _skipped(f"{why}: the line is skipped", last, t, lines=1)
    if bad > _TOLD:
        text = f"{place}: {bad - _TOLD:,} more lines are no events"
        yield _skipped(text, last, t, lines=bad - _TOLD)


def _skipped(text: str, step: int, t: float, *, lines: int) -> Event:
    return {"v": SCHEMA, "kind": "note", "step": step, "t": t, "text": text, "skipped": lines}


def newest_step(path: Path) -> int:
    """Return the newest step at the end of a file, ignoring a torn line; 0 for none."""
    try:
        with path.open("rb") as stream:
            start = max(0, stream.seek(0, os.SEEK_END) - _END)
            stream.seek(start)
            lines = stream.read().splitlines(keepends=True)[bool(start) :]
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    whole = (line for line in lines if line.endswith(b"\n"))
    events = surviving(read_lines(whole, f"the end of {path}"))
    return max((_int(event, "step") for event in events if event["kind"] == "step"), default=0)


class _SchemaError(DataError):
    """The event has the schema of another version."""


def read_event(line: bytes, place: str) -> Event:
    """Return the event of a complete line. Raises DataError with `place` if it is no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not an event: {error}") from error
    if not isinstance(event, dict):
        raise DataError(f"{place} is not an event but a {type(event).__name__}")
    if event.get("v") != SCHEMA:
        kind = _SchemaError if type(event.get("v")) is int else DataError
        raise kind(
            f"{place} has event schema {event.get('v')!r}, this version of hotloop reads {SCHEMA}"
        )
    if not isinstance(event.get("kind"), str) or type(event.get("step")) is not int:
        raise DataError(f"{place} is not an event: it lacks its kind or its step")
    return event


def _fault(event: Event, place: str) -> str | None:
    """Return what is wrong with the fields of an event, or None."""
    try:
        if not 0 <= _int(event, "step") <= _MOST:
            raise DataError(f"it has step={event['step']!r:.40}")
        if event["kind"] == "step":
            if not 0 <= _step(event, 0, 0).tokens <= _MOST:
                raise DataError(f"it has tokens={event['tokens']!r:.40}")
        elif event["kind"] == "eval":
            _float(event, "loss")
        for key in _NUMBERS & event.keys():
            if event[key] is not None and not abs(_float(event, key)) < _HUGE:
                raise DataError(f"it has {key}={event[key]!r:.40}")
    except (DataError, OverflowError) as error:
        return f"{place} is not an event: {error}"
    wall = event.get("wall", {})
    if event["kind"] == "end" and not isinstance(wall, dict):
        return f"{place} is not an event: the end has wall={wall!r:.40}"
    return None


def read_events(path: Path, *, void: bool = False, most: int | None = None) -> list[Event]:
    """Return the events of a file in order: the `surviving` ones or, with `void`, all.

    A torn last line is ignored; a line that is no event is replaced by a note (`read_lines`). With
    `most`, a long log gives about that many step events: older consecutive steps are merged into
    one event with their sums and `steps`, their number. Raises DataError with the name of a file
    that cannot be read or that another version wrote.
    """
    events: list[Event] = []
    steps_per_event, step_events = 2, 0  # steps of an event; step events
    for event in _parse(path):
        if event["kind"] == "resumed_from" and not void:
            events = _before(events, event)
        events.append(event)
        step_events += event["kind"] == "step"
        if most is not None and step_events > most:
            events = _merged(events, steps_per_event, newest=most // 4)
            step_events = sum(entry["kind"] == "step" for entry in events)
            steps_per_event *= 1 if step_events < 0.6 * most else 2
            most *= 1 if step_events < 0.9 * most else 2  # steps are not consecutive
    return events


def _merged(events: Sequence[Event], size: int, *, newest: int) -> list[Event]:
    """Merge up to `size` steps into one event, except the newest and the first of a process."""
    alone = 0
    merged: list[Event] = []
    older = sum(event["kind"] == "step" for event in events) - newest
    for event in events:
        alone = _FIRST if event["kind"] == "session" else alone
        if event["kind"] != "step":
            merged.append(event)
            continue
        older, alone = older - 1, alone - 1
        last = merged[-1] if merged else event
        follows = last["kind"] == "step" and _int(last, "step") + _many(event) == event["step"]
        block = (_int(event, "step") - 1) // size == (_int(last, "step") - 1) // size
        if older >= 0 > alone + 1 and follows and block and last is not event:
            merged[-1] = _sum_of(last, event)
        else:
            merged.append(event)
    return merged


def _sum_of(one: Event, other: Event) -> Event:
    """Merge two step events: sums, the mean loss, and all else from the later one."""
    n, m = _many(one), _many(other)
    sums = {
        key: one[key] + other[key]  # type: ignore[operator]
        for key in ("wall", "samples", "tokens", "targets", *PHASES)
        if key in one and key in other
    }
    loss = (n * _float(one, "loss") + m * _float(other, "loss")) / (n + m)
    return {**other, **sums, "loss": loss, "steps": n + m}


def _many(event: Event) -> int:
    """Return how many steps an event stands for."""
    return _int(event, "steps") if "steps" in event else 1


def surviving(events: Iterable[Event]) -> list[Event]:
    """Return the events without those that a resume made void; sessions stay."""
    valid: list[Event] = []
    for event in events:
        if event["kind"] == "resumed_from":
            valid = _before(valid, event)
        valid.append(event)
    return valid


def _before(events: Iterable[Event], resumed: Event) -> list[Event]:
    return [e for e in events if e["kind"] == "session" or _survives(e, resumed)]


def _survives(event: Event, resumed: Event) -> bool:
    """Whether an event still counts after a resume from an earlier position.

    A validation after the checkpoint of its own step will be repeated.
    """
    last = _int(resumed, "step")
    if event["kind"] == "eval" and "evaluated" in resumed:
        last = _int(resumed, "evaluated")
    return _int(event, "step") <= last


def _value(event: Event, key: str, kind: type[_T]) -> _T:
    value = event.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(
            f"the {event['kind']} event of step {event['step']} has {key}={value!r}, "
            f"expected {kind.__name__}"
        )
    return value


def _int(event: Event, key: str) -> int:
    return _value(event, key, int)


def _float(event: Event, key: str) -> float:
    whole = isinstance(event.get(key), int)
    return float(_int(event, key)) if whole else _value(event, key, float)


def steps(events: Iterable[Event], *, rank: int = 0) -> list[StepTrace]:
    """Return the optimizer steps in `events`, which come from `read_events`.

    Raises DataError with the step and the field that is missing or has a wrong type.
    """
    traces, nth = [], 0
    for event in events:
        if event["kind"] == "session":
            nth = 0
        elif event["kind"] == "step":
            nth += _many(event)
            traces.append(_step(event, rank, nth))
    return traces


def _step(event: Event, rank: int, nth: int) -> StepTrace:
    return StepTrace(
        step=_int(event, "step"),
        nth=nth,
        steps=_many(event),
        rank=rank,
        clock=_value(event, "clock", str),
        wall=_float(event, "wall"),
        phases={name: _float(event, name) for name in PHASES if name in event},
        loss=_float(event, "loss"),
        norm=None if event.get("norm") is None else _float(event, "norm"),
        learning_rate=_float(event, "lr"),
        epoch=_int(event, "epoch"),
        samples=_int(event, "samples"),
        tokens=_int(event, "tokens"),
        targets=_int(event, "targets"),
        ids=_value(event, "ids", str),
    )


def steady(trace: Iterable[StepTrace]) -> list[StepTrace]:
    """Return the steps without the warm-up steps after every start and resume."""
    return [step for step in trace if step.nth > WARMUP_STEPS]


def step_time(trace: Iterable[StepTrace]) -> Measurement | None:
    """Return the wall time of the steady steps in seconds, or None if there are none."""
    readings = tuple(step.wall / step.steps for step in steady(trace))
    return Measurement(unit="s", readings=readings) if readings else None
