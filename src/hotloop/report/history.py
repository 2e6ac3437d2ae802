"""What the events of a run say, as plain numbers: steps, validations, readings, processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.core.events import PHASES, WARMUP_STEPS, StepTrace, steps, surviving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.core.events import Event

__all__ = [
    "UNTOLD",
    "Rate",
    "Reading",
    "RunHistory",
    "RunProcess",
    "Step",
    "Validation",
    "history",
    "rates",
]

UNTOLD = "not told apart"  # the row of a process that was killed before it could say
MOST = 1 << 53  # steps and tokens: what a float still counts one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An optimizer step that counts."""

    trace: StepTrace
    at: float  # seconds since the run began, the time between its processes left out
    worked: float  # the same without validations and saves, of this process


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A validation that counts."""

    step: int
    at: float  # seconds, as for a step
    loss: float
    best: bool  # whether it was the best so far
    figures: Mapping[str, float] = field(default_factory=dict)  # those that there were rows for


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the machine showed at a log interval. None is unknown."""

    step: int
    at: float  # seconds, as for a step
    memory_bytes: float | None
    utilisation: float | None  # 0..1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcess:
    """One process of a run: its start, or a resume."""

    began: str | None  # UTC, ISO 8601
    after: int  # the step it began after
    last: int  # the newest step it wrote of
    reason: str | None = None  # why it ended; None when it did not say: killed, or running
    rows: Mapping[str, float]  # wall time by row, seconds; what is known of it
    void_steps: int = 0  # made by this process and lost, or made again by a later one
    void: float = 0.0  # seconds in those steps

    @property
    def seconds(self) -> float:
        """Return the wall time that is known."""
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Tokens per second over one step or one log interval, validations and saves left out."""

    step: int  # the last of the interval
    tokens_per_s: float
    steady: bool  # False in the warm-up of a process


@dataclass(frozen=True, slots=True)
class RunHistory:
    """All of it, in the order of the file."""

    steps: list[Step] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)  # (step, text)
    processes: list[RunProcess] = field(default_factory=list)


def history(events: Sequence[Event]) -> RunHistory:
    """Return what all `events` of a file say, void ones included.

    Raises DataError naming the step and the field that is missing or of a wrong type.
    """
    alive, found, offset = {id(event) for event in surviving(events)}, RunHistory(), 0.0
    try:
        traces = iter(steps([event for event in events if id(event) in alive]))
    except OverflowError as error:
        raise DataError("an event holds a number beyond what any run can reach") from error
    for mine in _by_process(events):
        process, worked = _process(mine, alive), 0.0
        began = _number(mine[0], "t") or 0.0
        for event in mine:
            at = _number(event, "t") or began
            if event["kind"] in ("eval", "save"):
                worked -= _number(event, "wall") or 0.0
            if id(event) in alive:
                _add(found, event, offset + at, worked + at, traces)
        found.processes.append(process)
        offset += process.seconds
    found.notes.extend(_missing(found.steps))
    return found


def _missing(made: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yield a note for each stretch of steps that the log lacks: it was cut, or a line is bad."""
    last = 0
    for each in made:
        first, last = last + 1, each.trace.step
        if (lacks := last - each.trace.steps) >= first:
            lost = f"step {first:,} is" if lacks == first else f"steps {first:,} to {lacks:,} are"
            yield last, f"{lost} missing from the log"


def rates(made: Sequence[Step], *, stride: int) -> list[Rate]:
    """Return the throughput of each `stride` steps that follow one another in one process.

    From the end of a step to the end of another, because where the device works while the host
    goes on, a step's own wall time is only that of launching it.
    """
    found, first, last = [], 0, 0
    while last + 1 < len(made):
        last += 1
        a, b = made[first], made[last]
        if b.trace.nth - a.trace.nth != b.trace.step - a.trace.step or b.trace.nth <= a.trace.nth:
            first = last  # a process began in between
        elif b.trace.nth - a.trace.nth >= stride:
            tokens = sum(step.trace.tokens for step in made[first + 1 : last + 1])
            if (seconds := b.worked - a.worked) > 0:
                steady = a.trace.nth >= WARMUP_STEPS
                found.append(Rate(step=b.trace.step, tokens_per_s=tokens / seconds, steady=steady))
            first = last
    return found


def _by_process(events: Sequence[Event]) -> Iterator[list[Event]]:
    mine: list[Event] = []
    for event in events:
        if event["kind"] == "session" and mine:
            yield mine
            mine = []
        mine.append(event)
    if mine:
        yield mine


def _add(
    found: RunHistory, event: Event, at: float, worked: float, traces: Iterator[StepTrace]
) -> None:
    step = _step(event)
    match event["kind"]:
        case "step":
            trace = next(traces)
            if not 0 <= trace.tokens <= MOST:
                raise DataError(f"the step event of step {step} has tokens={trace.tokens!r:.60}")
            found.steps.append(Step(trace=trace, at=at, worked=worked))
        case "eval":
            loss = _number(event, "loss")
            if loss is None:
                raise DataError(f"the eval event of step {step} has loss={event.get('loss')!r:.60}")
            best = event.get("best") is True
            told = event.get("figures")
            figures = told if isinstance(told, dict) else {}
            known = {str(k): v for k in figures if (v := _number(figures, k)) is not None}
            one = Validation(step=step, at=at, loss=loss, best=best, figures=known)
            found.validations.append(one)
        case "reading":
            memory, busy = _number(event, "memory_bytes"), _number(event, "utilisation")
            found.readings.append(Reading(step=step, at=at, memory_bytes=memory, utilisation=busy))
        case "note":
            found.notes.append((step, str(event.get("text"))))


def _process(mine: Sequence[Event], alive: set[int]) -> RunProcess:
    first, last = mine[0], mine[-1]
    began = first.get("at") if first["kind"] == "session" else None
    gone = [event for event in mine if event["kind"] == "step" and id(event) not in alive]
    wall, reason = last.get("wall"), None
    if last["kind"] == "end" and isinstance(wall, dict):
        reason = str(last.get("reason"))
        rows = {str(name): max(0.0, _number(wall, name) or 0.0) for name in wall}
    else:
        rows = _rows_of_killed(mine)
    rows = _with_exchange(rows, mine)
    return RunProcess(
        began=began if isinstance(began, str) else None,
        after=_step(first),
        last=max(map(_step, mine)),
        reason=reason,
        rows=rows,
        void_steps=sum(_step_count(event) for event in gone),
        void=_sum(gone, "wall"),
    )


def _rows_of_killed(mine: Sequence[Event]) -> dict[str, float]:
    """Return the wall time by row of a process that wrote no end, up to its last event."""
    by_kind = {kind: [e for e in mine if e["kind"] == kind] for kind in ("step", "eval", "save")}
    waited = _sum(by_kind["step"], PHASES[0])
    rows = {
        "start": _number(mine[0], "t") or 0.0,
        "data wait": waited,
        "step": _sum(by_kind["step"], "wall") - waited,
        "evaluate": _sum(by_kind["eval"], "wall"),
        "save": _sum(by_kind["save"], "wall"),
    }
    until = max((_number(event, "t") or 0.0 for event in mine), default=0.0)
    return {**rows, UNTOLD: max(0.0, until - sum(rows.values()))}


def _with_exchange(rows: dict[str, float], mine: Sequence[Event]) -> dict[str, float]:
    """Return the rows of a rank with its waits for others taken out of its steps."""
    waited = min(rows.get("step", 0.0), _sum(mine, "exchange"))
    if waited <= 0 or "exchange" in rows:
        return rows
    within = {"step": rows["step"] - waited, "exchange": waited}
    return {
        name: seconds
        for row in rows
        for name, seconds in (within if row == "step" else {row: rows[row]}).items()
    }


def _step_count(event: Event) -> int:
    count = event.get("steps", 1)
    return count if isinstance(count, int) else 1


def _step(event: Event) -> int:
    step = event["step"]
    assert isinstance(step, int)  # read_events has checked that
    if not 0 <= step <= MOST:
        raise DataError(f"a {event['kind']} event has step={step!r:.60}")
    return step


def _sum(events: Sequence[Event], key: str) -> float:
    return math.fsum(_number(event, key) or 0.0 for event in events)


def _number(event: Mapping[str, object], key: str) -> float | None:
    """Return a field as a finite number, None when it is none. Void events are not checked yet."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return float(value)
