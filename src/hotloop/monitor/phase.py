"""Infers the current phase of a running run, and why it makes no step, from its files.

The engine writes a step at each log interval, and a validation or a checkpoint after it is done.
The current phase is therefore inferred from what is due, from the unfinished folder of a
checkpoint, from the time since the last write, and from the CPU use of its processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.units import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.events import Event

__all__ = ["Signs", "phase"]

WAITS = 0.10  # share of data wait in a step from which the doctor's D1 warns
STALLED, TIMES = 10.0, 3.0  # a stall lasts these seconds, and this many usual write intervals
ASLEEP = 0.05  # cores; a process that uses less computes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The facts about a running run that are visible from outside. Unknown is None."""

    events: Sequence[Event] = ()  # the newest ones
    config: Mapping[str, object] = field(default_factory=dict)
    steps: int | None = None  # of the whole run
    pid: int | None = None  # of its process
    compiles: bool = False  # whether the plan asks for compilation
    shares: Mapping[str, float] = field(default_factory=dict)  # phase -> part of the step, 0..1
    of_steps: int = 0  # number of steps that the shares refer to
    log_seconds: float = 0.0  # usual time between two writes
    silent: float | None = None  # seconds since the last write
    cores: float | None = None  # used by its processes
    paused: bool = False
    saving: bool = False  # whether an unfinished checkpoint exists


def phase(signs: Signs) -> tuple[str, str | None]:
    """Return the phase, and why the run is idle or waits, or None if it does not."""
    if signs.paused:
        return "paused", "its process was stopped by a signal: kill -CONT lets it go on"
    session = next((e for e in reversed(signs.events) if e["kind"] == "session"), None)
    if session is not None and signs.pid is not None and session.get("pid") != signs.pid:
        session = None  # that of an earlier process; this one has made no step yet
    if session is None and not any(e["kind"] == "step" for e in signs.events[-1:]):
        return _starting(signs)
    silent = signs.silent or 0.0
    last = signs.events[-1]["step"] if signs.events else 0
    assert isinstance(last, int)
    if signs.saving and silent > signs.log_seconds:
        return "saving", f"it writes the checkpoint of step {last:,} ({duration(silent)} so far)"
    if (due := _evaluation_due(signs, last)) is not None:
        return "evaluating", f"{due} ({duration(silent)} so far)"
    if silent > max(STALLED, TIMES * signs.log_seconds):
        return _stalled(signs, silent)
    if (share := signs.shares.get("data", 0.0)) >= WAITS:
        recent = f"the last {signs.of_steps} steps"
        return "waiting for data", f"{share:.0%} of {recent} went into waiting for a batch"
    return "training", None


def _starting(signs: Signs) -> tuple[str, str]:
    """Return the phase before the first step of this process, and the reason."""
    if signs.compiles:
        return "compiling", "no step yet: it loads, then compiles the model"
    return "starting", "no step yet: it loads the data and builds or restores the model"


def _evaluation_due(signs: Signs, last: int) -> str | None:
    """Return which validation is under way, as it is due and not yet written, or None."""
    every = signs.config.get("training.eval_every_steps")
    done = any(e["kind"] == "eval" and e["step"] == last for e in signs.events)
    if done or last == 0:
        return None
    if last == signs.steps:
        return f"the validation after step {last:,}, the last one"
    if isinstance(every, int) and every > 0 and last % every == 0:
        return f"the validation after step {last:,}, one comes every {every:,}"
    return None


def _stalled(signs: Signs, silent: float) -> tuple[str, str]:
    usual = f"; usually it writes every {duration(signs.log_seconds)}" if signs.log_seconds else ""
    sentence = f"nothing was written for {duration(silent)}{usual}"
    if signs.cores is None:
        return "stopped writing", sentence
    if signs.cores < ASLEEP:
        why = (
            "its processes compute nothing: they wait for the disk, the network, the GPU or a lock"
        )
        return "stopped writing", f"{sentence}; {why}"
    epochs = signs.config.get("training.eval_every_epochs")
    also = " or a validation, which comes with an epoch's end" if epochs else ""
    return "working", f"{sentence}; its processes use {signs.cores:.1f} cores: a long step{also}"
