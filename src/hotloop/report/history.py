"""The events of a run as plain numbers: steps, validations, readings, processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.core.events import PHASES, WARMUP_STEPS, StepTrace, finite, steps, surviving

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

UNTOLD = "not told apart"  # the row of a process that was killed before it wrote its wall time
MOST = 1 << 53  # steps or tokens: the largest count that a float holds exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An optimizer step that no resume has discarded."""

    trace: StepTrace
    at: float  # seconds since the run began, without the time between its processes
    worked: float  # seconds since its process began, without validations and saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A validation that no resume has discarded."""

    step: int
    at: float  # seconds, as for a step
    loss: float
    best: bool  # whether it was the best so far
    figures: Mapping[str, float] = field(default_factory=dict)  # those that there were rows for


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Readings of the machine at a log interval. None is unknown."""

    step: int
    at: float  # seconds, as for a step
    memory_bytes: float | None
    utilisation: float | None  # 0..1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProcess:
    """One process of a run: the first one, or a resume."""

    began: str | None  # UTC, ISO 8601
    after: int  # the step it began after
    last: int  # the last step it wrote an event for
    reason: str | None = None  # why it ended; None: not recorded, as it was killed or still runs
    rows: Mapping[str, float]  # known wall time by row, seconds
    void_steps: int = 0  # steps of this process that were lost, or repeated by a later one
    void: float = 0.0  # seconds in those steps

    @property
    def seconds(self) -> float:
        """The known wall time."""
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Tokens per second over one step or log interval, without validations and saves."""

    step: int  # the last of the interval
    tokens_per_s: float
    steady: bool  # False in the warm-up of a process


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The whole history of a run, in the order of the file."""

    steps: list[Step] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)  # (step, text)
    processes: list[RunProcess] = field(default_factory=list)


def history(events: Sequence[Event]) -> RunHistory:
    """Return the history in all `events` of a file, void ones included.

    Raises DataError that names the step and the field that is missing or of a wrong type.
    """
    alive, past, offset = {id(event) for event in surviving(events)}, RunHistory(), 0.0
    try:
        traces = iter(steps([event for event in events if id(event) in alive]))
    except OverflowError as error:
        raise DataError("an event holds a number beyond what any run can reach") from error
    for process_events in _by_process(events):
        process, worked = _process(process_events, alive), 0.0
        began = finite(process_events[0].get("t")) or 0.0
        for event in process_events:
            seconds = finite(event.get("t")) or began
            if event["kind"] in ("eval", "save"):
                worked -= finite(event.get("wall")) or 0.0
            if id(event) in alive:
                _add(past, event, offset + seconds, worked + seconds, traces)
        past.processes.append(process)
        offset += process.seconds
    past.notes.extend(_missing(past.steps))
    return past


def _missing(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yield a note for each range of steps missing from the log (cut, or a bad line)."""
    last = 0
    for step in steps:
        first, last = last + 1, step.trace.step
        if (lacks := last - step.trace.steps) >= first:
            lost = f"step {first:,} is" if lacks == first else f"steps {first:,} to {lacks:,} are"
            yield last, f"{lost} missing from the log"


def rates(steps: Sequence[Step], *, stride: int) -> list[Rate]:
    """Return the throughput of each `stride` consecutive steps within one process.

    Time runs from the end of one step to the end of another: where the device works
    asynchronously, a step's own wall time covers only the launches.
    """
    readings, first, last = [], 0, 0
    while last + 1 < len(steps):
        last += 1
        a, b = steps[first], steps[last]
        if b.trace.nth - a.trace.nth != b.trace.step - a.trace.step or b.trace.nth <= a.trace.nth:
            first = last  # a process began in between
        elif b.trace.nth - a.trace.nth >= stride:
            tokens = sum(step.trace.tokens for step in steps[first + 1 : last + 1])
            if (seconds := b.worked - a.worked) > 0:
                speed, steady = tokens / seconds, a.trace.nth >= WARMUP_STEPS
                readings.append(Rate(step=b.trace.step, tokens_per_s=speed, steady=steady))
            first = last
    return readings


def _by_process(events: Sequence[Event]) -> Iterator[list[Event]]:
    process_events: list[Event] = []
    for event in events:
        if event["kind"] == "session" and process_events:
            yield process_events
            process_events = []
        process_events.append(event)
    if process_events:
        yield process_events


def _add(
    past: RunHistory, event: Event, at: float, worked: float, traces: Iterator[StepTrace]
) -> None:
    step = _step(event)
    match event["kind"]:
        case "step":
            trace = next(traces)
            if not 0 <= trace.tokens <= MOST:
                raise DataError(f"the step event of step {step} has tokens={trace.tokens!r:.60}")
            past.steps.append(Step(trace=trace, at=at, worked=worked))
        case "eval":
            loss = finite(event.get("loss"))
            if loss is None:
                raise DataError(f"the eval event of step {step} has loss={event.get('loss')!r:.60}")
            best = event.get("best") is True
            recorded = event.get("figures")
            figures = recorded if isinstance(recorded, dict) else {}
            known = {str(k): v for k in figures if (v := finite(figures.get(k))) is not None}
            validation = Validation(step=step, at=at, loss=loss, best=best, figures=known)
            past.validations.append(validation)
        case "reading":
            memory, busy = finite(event.get("memory_bytes")), finite(event.get("utilisation"))
            past.readings.append(Reading(step=step, at=at, memory_bytes=memory, utilisation=busy))
        case "note":
            past.notes.append((step, str(event.get("text"))))


def _process(events: Sequence[Event], alive: set[int]) -> RunProcess:
    first, last = events[0], events[-1]
    began = first.get("at") if first["kind"] == "session" else None
    void_steps = [event for event in events if event["kind"] == "step" and id(event) not in alive]
    wall, reason = last.get("wall"), None
    if last["kind"] == "end" and isinstance(wall, dict):
        reason = str(last.get("reason"))
        rows = {str(name): max(0.0, finite(wall.get(name)) or 0.0) for name in wall}
    else:
        rows = _rows_of_killed(events)
    rows = _with_exchange(rows, events)
    return RunProcess(
        began=began if isinstance(began, str) else None,
        after=_step(first),
        last=max(map(_step, events)),
        reason=reason,
        rows=rows,
        void_steps=sum(_step_count(event) for event in void_steps),
        void=_sum(void_steps, "wall"),
    )


def _rows_of_killed(events: Sequence[Event]) -> dict[str, float]:
    """Return the wall time by row, up to the last event, of a process that wrote no end."""
    by_kind = {kind: [e for e in events if e["kind"] == kind] for kind in ("step", "eval", "save")}
    waited = _sum(by_kind["step"], PHASES[0])
    rows = {
        "start": finite(events[0].get("t")) or 0.0,
        "data wait": waited,
        "step": _sum(by_kind["step"], "wall") - waited,
        "evaluate": _sum(by_kind["eval"], "wall"),
        "save": _sum(by_kind["save"], "wall"),
    }
    until = max((finite(event.get("t")) or 0.0 for event in events), default=0.0)
    return {**rows, UNTOLD: max(0.0, until - sum(rows.values()))}


def _with_exchange(rows: dict[str, float], events: Sequence[Event]) -> dict[str, float]:
    """Return the rows of a rank with its waits for other ranks split off from its steps."""
    waited = min(rows.get("step", 0.0), _sum(events, "exchange"))
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
    assert isinstance(step, int)  # checked by read_events
    if not 0 <= step <= MOST:
        raise DataError(f"a {event['kind']} event has step={step!r:.60}")
    return step


def _sum(events: Sequence[Event], key: str) -> float:
    return math.fsum(finite(event.get(key)) or 0.0 for event in events)
