"""The event file of a run, and steps as the view that report, doctor and monitor take of it.

One JSON object a line. Every line has `v` (schema), `kind`, `step` and `t` (seconds since this
process began the run, monotonic). Kinds:

    session       a process starts or resumes: at (UTC), pid
    step          one optimizer step: wall and phases in seconds, clock, values, position
    eval, save    a validation, a checkpoint: wall in seconds and values
    resumed_from  all steps after `step` are void: they were lost or will be repeated
    note          something a reader must know: text
    end           why the process stopped, and its wall time by row in seconds

Schema history: 1 (2026-11) first.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotloop.core.errors import DataError
from hotloop.core.measurement import Measurement

__all__ = [
    "PHASES",
    "SCHEMA",
    "WARMUP_STEPS",
    "Event",
    "StepTrace",
    "event_line",
    "read_events",
    "steady",
    "step_time",
    "steps",
]

SCHEMA = 1
PHASES = ("data", "forward", "backward", "update")
WARMUP_STEPS = 3  # allocation, cache fills and lazy initialisation live in the first steps

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One optimizer step. Phases nest inside `wall` and may leave a rest."""

    step: int  # 1 for the first
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
    """Return one event as a JSON line without its newline."""
    return json.dumps(
        {"v": SCHEMA, "kind": kind, "step": step, "t": round(t, 6), **fields},
        separators=(",", ":"),
    )


def _parse(path: Path) -> Iterator[Event]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith("\n"):
                return  # torn: the run is alive, or died while writing
            try:
                event = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}:{number} is not an event: {error}") from error
            if not isinstance(event, dict) or event.get("v") != SCHEMA:
                raise DataError(f"{path}:{number} has another event schema than {SCHEMA}")
            yield event


def read_events(path: Path) -> list[Event]:
    """Return the valid events of a file in order; what a resume made void is left out.

    Raises DataError naming file and line. A torn last line is ignored.
    """
    events: list[Event] = []
    for event in _parse(path):
        if event["kind"] == "resumed_from":
            last = _int(event, "step")
            events = [e for e in events if _int(e, "step") <= last or e["kind"] == "session"]
        events.append(event)
    return events


def _int(event: Event, key: str) -> int:
    value = event[key]
    assert isinstance(value, int)
    return value


def _float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def steps(events: Iterable[Event], *, rank: int = 0) -> list[StepTrace]:
    """Return the optimizer steps among `events`."""
    return [_step(event, rank) for event in events if event["kind"] == "step"]


def _step(event: Event, rank: int) -> StepTrace:
    norm = event.get("norm")
    return StepTrace(
        step=_int(event, "step"),
        rank=rank,
        clock=str(event["clock"]),
        wall=_float(event["wall"]),
        phases={name: _float(event[name]) for name in PHASES if name in event},
        loss=_float(event["loss"]),
        norm=None if norm is None else _float(norm),
        learning_rate=_float(event["lr"]),
        epoch=_int(event, "epoch"),
        samples=_int(event, "samples"),
        tokens=_int(event, "tokens"),
        targets=_int(event, "targets"),
        ids=str(event["ids"]),
    )


def steady(trace: Sequence[StepTrace]) -> Sequence[StepTrace]:
    """Leave out the warm-up steps."""
    return trace[WARMUP_STEPS:]


def step_time(trace: Sequence[StepTrace]) -> Measurement | None:
    """Return the wall time of the steady steps in seconds, or None when there are none."""
    readings = tuple(step.wall for step in steady(trace))
    return Measurement(unit="s", readings=readings) if readings else None
