"""Reads the state of a run of hotloop train from its folder, its lock and its events."""

from __future__ import annotations

import os
import platform
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError
from hotloop.core.events import PHASES
from hotloop.core.hardware import Hardware
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import path_of
from hotloop.monitor.phase import Signs, phase
from hotloop.monitor.tail import BYTES, Tail

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.events import Event
    from hotloop.core.storage.lock import LockHolder

__all__ = ["RunReader", "RunReading", "StepRate", "TokenCost", "pace"]

LAST = 50  # steps whose speed is "now"
_STEP = re.compile(r"step-(\d{8,})")  # a checkpoint's name, as store.path_of gives it


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRate:
    """The speed of the last steps; rates exclude validations and saves."""

    steps_per_s: float
    tokens_per_s: float
    seconds_per_step: float  # of this process since its start, with validations and saves
    shares: Mapping[str, float] = field(default_factory=dict)  # phase -> part of the step, 0..1
    of_steps: int = 0  # number of steps that the shares refer to
    log_seconds: float = 0.0  # time between two writes of the log


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """The FLOP of a token and the measured product rate of the device. Unknown is None."""

    flops_per_token: float | None  # forward and backward
    precision: str | None  # of the products
    ceiling: float | None  # FLOP/s, measured on this machine before the run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """One run at one moment. Unknown is None."""

    path: Path
    what: str  # the recipe or the script
    state: str  # running, complete, stopped, failed, diverged, crashed
    why: str | None = None  # of the state
    pid: int | None = None  # of its process, on this machine
    phase: str | None = None  # what it does now; None after its end
    idle: str | None = None  # why it makes no step now, or waits within its steps
    step: int = 0
    steps: int | None = None  # of the whole run
    loss: float | None = None
    pace: StepRate | None = None
    silent: float | None = None  # seconds since it wrote an event
    seconds_left: float | None = None
    saved_step: int | None = None
    saved_ago: float | None = None  # seconds
    cost: TokenCost | None = None
    ranks: int = 1  # processes that make a step together; readings are those of rank 0

    @property
    def running(self) -> bool:
        """Whether a process is working on it."""
        return self.state == "running"


def _state(
    record: Mapping[str, object], holder: LockHolder | None, stale: str | None
) -> tuple[str, str | None]:
    """Return the state and its reason from the record and the lock.

    `stale` is the reason why the holder of the lock is gone, or None.
    """
    if holder is not None and stale is None:
        if holder.host != platform.node():
            return "running", f"on {holder.host}, which cannot be looked at from here"
        return "running", None
    status, why = str(record.get("status", "unknown")), record.get("reason")
    if status == "running":
        return "crashed", stale or "no process is at it, and none wrote how it ended"
    return status, why if isinstance(why, str) and why != status else None


def pace(events: Sequence[Event], *, log_every: int) -> StepRate | None:
    """Return the speed of the newest process; None before its second step. Raises DataError."""
    began = max((n for n, event in enumerate(events) if event["kind"] == "session"), default=None)
    session_events = list(events if began is None else events[began:])
    step_events = [event for event in session_events if event["kind"] == "step"]
    last = step_events[-LAST:]
    if len(last) < 2:
        return None
    since = _t(last[0])
    aside = sum(
        _number(event, "wall") for event in session_events
        if event["kind"] in ("eval", "save") and _t(event) > since and _t(event) <= _t(last[-1])
    )  # fmt: skip
    seconds = max(1e-9, _t(last[-1]) - since - aside)
    walls = [_number(event, "wall") for event in last]
    phase_events = {name: timed for name in PHASES if (timed := [e for e in last if name in e])}
    first = step_events[0] if began is None else session_events[0]
    whole = (_t(session_events[-1]) - _t(first)) / max(1, _step(last[-1]) - _step(first))
    return StepRate(
        steps_per_s=(len(last) - 1) / seconds,
        tokens_per_s=sum(_number(event, "tokens") for event in last[1:]) / seconds,
        seconds_per_step=whole,
        shares={
            name: sum(_number(event, name) for event in timed) / (sum(walls) or 1.0)
            for name, timed in phase_events.items()
        },
        of_steps=len(last),
        log_seconds=log_every * statistics.median(walls),
    )


class RunReader:
    """Reads one run repeatedly; each reading parses new events only."""

    def __init__(self, path: Path, *, bytes: int = BYTES) -> None:
        """Open a run. Raises UsageError for another folder, DataError for a damaged record."""
        self._run = RunDir.open(path)
        self.record: Mapping[str, object] = self._run.read()
        self._cost = _cost(self.record)
        self._tail = Tail(self._run.events_file(), bytes=bytes)
        self._newest: Event | None = None
        self._pace: StepRate | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        return self._run.path

    def read(self, *, cores: float | None = None, paused: bool = False) -> RunReading:
        """Return the current reading. `cores` is the CPU use of its processes; None: unknown.

        Raises DataError if its record or its events are damaged.
        """
        holder = self._run.holder()
        stale = None if holder is None else holder.why_stale()
        if (holder is None or stale is not None) and self.record.get("status") == "running":
            self.record = self._run.read()  # may contain how it ended
        self._tail.read()
        self._measure()
        record, events = self.record, self._tail.events
        state, why = _state(record, holder, stale)
        is_local = holder is not None and stale is None and holder.host == platform.node()
        planned = record.get("steps")
        total = planned if isinstance(planned, int) else None
        last = next((event for event in reversed(events) if event["kind"] == "step"), None)
        saved_step, saved_ago, saving = self._checkpoints()
        run = RunReading(
            path=self.path,
            what=str(record.get("recipe") or record.get("kind") or "unknown"),
            state=state,
            why=why or self._tail.skipped,
            pid=holder.pid if holder is not None and is_local else None,
            step=0 if last is None else _step(last),
            steps=total,
            loss=None if last is None else _number(last, "loss"),
            pace=self._pace,
            silent=self._tail.silent,
            saved_step=saved_step,
            saved_ago=saved_ago,
            cost=self._cost,
            ranks=_ranks(record),
        )
        if state != "running":
            return run
        if record.get("kind") == "tune":
            return replace(run, phase="trying plans")
        pid = None if holder is None else holder.pid
        doing, idle = phase(self._signs(pid, total, cores, paused=paused, saving=saving))
        return replace(run, phase=doing, idle=idle, seconds_left=self._left(run.step, total))

    def _signs(
        self, pid: int | None, total: int | None, cores: float | None, *, paused: bool, saving: bool
    ) -> Signs:
        speed = self._pace or StepRate(steps_per_s=0.0, tokens_per_s=0.0, seconds_per_step=0.0)
        return Signs(
            events=self._tail.events,
            config=_mapping(self.record.get("config")),
            steps=total,
            pid=pid,
            compiles="'compile" in str(self.record.get("choices")),
            shares=speed.shares,
            of_steps=speed.of_steps,
            log_seconds=speed.log_seconds,
            silent=self._tail.silent,
            cores=cores,
            paused=paused,
            saving=saving,
        )

    def _measure(self) -> None:
        """Update the speed if an event was written."""
        newest = self._tail.events[-1] if self._tail.events else None
        if newest is not self._newest:
            every = _mapping(self.record.get("config")).get("training.log_every")
            self._newest = newest
            self._pace = pace(self._tail.events, log_every=every if isinstance(every, int) else 1)

    def _left(self, step: int, total: int | None) -> float | None:
        if self._pace is None or total is None:
            return None
        begun = min(self._tail.silent or 0.0, self._pace.log_seconds)  # of steps not yet written
        return max(0.0, (total - step) * self._pace.seconds_per_step - begun)

    def _checkpoints(self) -> tuple[int | None, float | None, bool]:
        """Return the newest checkpoint's step and age, and whether one is being written.

        A checkpoint gets its name after it is complete; `hotloop checkpoints --verify` verifies it.
        """
        folder = self._run.checkpoints
        try:
            names = os.listdir(folder)
            saving = any(name.startswith(".") for name in names)
            steps = [int(n[1]) for n in map(_STEP.fullmatch, names) if n]
            if not steps:
                return None, None, saving
            saved = path_of(folder, max(steps)).stat().st_mtime
        except OSError:  # no folder yet, or a checkpoint is removed meanwhile
            return None, None, False
        return max(steps), max(0.0, time.time() - saved), saving


def _cost(record: Mapping[str, object]) -> TokenCost:
    flops, precision = record.get("flops_per_token"), record.get("precision")
    measured = None
    try:
        hardware = Hardware.from_json(record.get("hardware"))
        measured = hardware.measured.get(str(precision))
    except DataError:  # written by a version with another format: the ceiling is unknown
        pass
    return TokenCost(
        flops_per_token=float(flops) if isinstance(flops, int | float) else None,
        precision=precision if isinstance(precision, str) else None,
        ceiling=None if measured is None else measured.median,
    )


def _ranks(record: Mapping[str, object]) -> int:
    world = _mapping(record.get("ranks")).get("world")
    return world if type(world) is int and world > 1 else 1


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _step(event: Event) -> int:
    step = event["step"]
    assert isinstance(step, int)  # read_event has checked that
    return step


def _t(event: Event) -> float:
    return _number(event, "t")


def _number(event: Event, key: str) -> float:
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind, step = event["kind"], event["step"]
        raise DataError(f"the {kind} event of step {step} has {key}={value!r:.60}, no number")
    return float(value)
