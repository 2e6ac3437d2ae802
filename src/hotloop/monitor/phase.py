"""Tells what a running run does right now and why it makes no step, from what it left behind.

The engine writes a step at each log interval, a validation and a checkpoint when they are over. So
what is under way is inferred: from what is due, from a checkpoint's unfinished folder, from how
long nothing was written, and from what its processes use meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.units import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.events import Event

__all__ = ["Signs", "phase"]

WAITS = 0.10  # of the step: from here on waiting for data is what the doctor's D1 warns about
STALLED, TIMES = 10.0, 3.0  # seconds, and usual times between two writes, until silence is told
ASLEEP = 0.05  # cores: less than that computes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What is seen of a running run from outside. Unknown is None."""

    events: Sequence[Event] = ()  # the newest ones that count
    config: Mapping[str, object] = field(default_factory=dict)
    steps: int | None = None  # of the whole run
    pid: int | None = None  # of the process at it
    compiles: bool = False  # whether the plan asks for compilation
    shares: Mapping[str, float] = field(default_factory=dict)  # phase -> part of the step, 0..1
    of_steps: int = 0  # that the shares are of
    log_seconds: float = 0.0  # usual time between two writes
    silent: float | None = None  # seconds since the last write
    cores: float | None = None  # that its processes use
    paused: bool = False
    saving: bool = False  # an unfinished checkpoint is there


def phase(signs: Signs) -> tuple[str, str | None]:
    """Return what it does, and why it is idle or waits; None: it is not."""
    if signs.paused:
        return "paused", "its process was stopped by a signal: kill -CONT lets it go on"
    session = next((e for e in reversed(signs.events) if e["kind"] == "session"), None)
    if session is not None and signs.pid is not None and session.get("pid") != signs.pid:
        session = None  # that of a process before: this one has not begun its steps
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
        of = f"the last {signs.of_steps} steps"
        return "waiting for data", f"{share:.0%} of {of} went into waiting for a batch"
    return "training", None


def _starting(signs: Signs) -> tuple[str, str]:
    """No step of this process yet: it imports, reads, restores, or compiles before step 1."""
    if signs.compiles:
        return "compiling", "no step yet: it loads, then compiles the model"
    return "starting", "no step yet: it loads the data and builds or restores the model"


def _evaluation_due(signs: Signs, last: int) -> str | None:
    """Return why a validation is under way: the steps before it are written, it is not."""
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
    said = f"nothing was written for {duration(silent)}{usual}"
    if signs.cores is None:
        return "stopped writing", said
    if signs.cores < ASLEEP:
        why = (
            "its processes compute nothing: they wait for the disk, the network, the card or a lock"
        )
        return "stopped writing", f"{said}; {why}"
    epochs = signs.config.get("training.eval_every_epochs")
    also = " or a validation, which comes with an epoch's end" if epochs else ""
    return "working", f"{said}; its processes use {signs.cores:.1f} cores: a long step{also}"
