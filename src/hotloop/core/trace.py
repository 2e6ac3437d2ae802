"""The event file of a run, and steps as the view that report, doctor and monitor take of it.

One JSON object a line. Every line has `v` (schema), `kind`, `step` and `t` (seconds since this
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
from collections.abc import Iterable, Iterator, Mapping
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
    "read_event",
    "read_events",
    "steady",
    "step_line",
    "step_time",
    "steps",
    "surviving",
]

SCHEMA = 1
# "exchange" is what a rank waits for the others, and for what travels between them.
PHASES = ("data", "forward", "backward", "exchange", "update")
WARMUP_STEPS = 3  # allocation, cache fills and lazy initialisation live in the first steps

Event = Mapping[str, object]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One optimizer step. Phases nest inside `wall` and may leave a rest."""

    step: int  # 1 for the first
    nth: int  # step of its process: 1 for the first after a start or resume
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


def event_line(kind: str, *, step: int, t: float, **fields: object) -> str:
    """Return one event as a JSON line without its newline; ValueError for NaN, no JSON number."""
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
    """Return a step event as `event_line` would, in a fifth of its time: it is written each step.

    Seconds; `loss`, `norm` and `learning_rate` must be finite. Python's float repr is JSON.
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
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    return  # torn: the run is alive, or died while writing
                yield read_event(line, f"{path}:{number}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def read_event(line: bytes, place: str) -> Event:
    """Return the event of a whole line; DataError naming `place` when it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not an event: {error}") from error
    if not isinstance(event, dict):
        raise DataError(f"{place} is not an event but a {type(event).__name__}")
    if event.get("v") != SCHEMA:
        raise DataError(
            f"{place} has event schema {event.get('v')!r}, this version of hotloop reads {SCHEMA}"
        )
    if not isinstance(event.get("kind"), str) or type(event.get("step")) is not int:
        raise DataError(f"{place} is not an event: it lacks its kind or its step")
    return event


def read_events(path: Path, *, void: bool = False) -> list[Event]:
    """Return the events of a file in order, `surviving` ones or, with `void`, all.

    Raises DataError naming file and line, or the file that cannot be read. A torn last line is
    ignored. Only `v`, `kind` and `step` are checked here.
    """
    events = _parse(path)
    return list(events) if void else surviving(events)


def surviving(events: Iterable[Event]) -> list[Event]:
    """Leave out what a resume made void; the sessions stay."""
    left: list[Event] = []
    for event in events:
        if event["kind"] == "resumed_from":
            left = [e for e in left if e["kind"] == "session" or _survives(e, event)]
        left.append(event)
    return left


def _survives(event: Event, resumed: Event) -> bool:
    """Whether an event still counts after a resume from an earlier position.

    A validation that came after the checkpoint of its own step will be made again.
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
    """Return the optimizer steps among `events`, those of `read_events`.

    Raises DataError naming the step and the field that is missing or of a wrong type.
    """
    found, nth = [], 0
    for event in events:
        if event["kind"] == "session":
            nth = 0
        elif event["kind"] == "step":
            nth += 1
            found.append(_step(event, rank, nth))
    return found


def _step(event: Event, rank: int, nth: int) -> StepTrace:
    return StepTrace(
        step=_int(event, "step"),
        nth=nth,
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
    """Leave out the warm-up steps: those at every start and resume."""
    return [step for step in trace if step.nth > WARMUP_STEPS]


def step_time(trace: Iterable[StepTrace]) -> Measurement | None:
    """Return the wall time of the steady steps in seconds, or None when there are none."""
    readings = tuple(step.wall for step in steady(trace))
    return Measurement(unit="s", readings=readings) if readings else None
