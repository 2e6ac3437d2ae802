"""Compares the figures of a run with those of its baselines: times, rates, memory, waits."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.core.measurement import typical
from hotloop.core.trial import Scatter
from hotloop.core.two_runs import (
    Change,
    MachineDrift,
    change_of_counts,
    change_of_steps,
    change_of_values,
    load_bound,
)
from hotloop.core.units import bytes_, count, duration, moment
from hotloop.diagnosis.baseline import MEMORY, TIMES, WAITS, reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.fail_on import Worse
    from hotloop.diagnosis.baseline import Unlike
    from hotloop.diagnosis.recorded_run import RecordedRun, RunFacts

__all__ = ["FIGURES", "FigureChange", "changed_figures", "machine_drift"]

# Of the logarithm of the ratio of two runs of one script. The start was measured as APART; it reads
# files that may be cached or not. The resident memory is that of the script whose memory varied
# most, 14 runs of double_attention: 693 to 880 MB (docs/log.md, 2026-11-27).
_STARTS = Scatter(squares=12 * 0.104**2, freedom=12)
_MEMORIES = Scatter(squares=13 * 0.103**2, freedom=13)
FIGURES: Final[dict[str, Worse]] = {
    "step_time": "more",
    "samples_per_s": "less",
    "tokens_per_s": "less",
    "start": "more",
    "peak_memory": "more",
    "waits_per_step": "more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """One figure of the baselines (their mean) and of the present run, in seconds, bytes or 1/s."""

    name: str
    before: float | None
    now: float | None
    change: Change  # of its cost: of a rate, the inverse
    verdict: str  # SLOWER, FASTER, MORE, LESS, SAME or UNKNOWN
    why: str | None = None  # why it is unknown

    @property
    def changed(self) -> str:
        """Return the change of the figure in percent with its interval, for a table."""
        return self.change.shown(FIGURES[self.name])

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values; `ratio` and `interval` are those of the figure itself."""
        ratio, interval = self.change.of_figure(FIGURES[self.name])
        return {
            "name": self.name,
            "before": self.before,
            "now": self.now,
            "ratio": ratio,
            "interval": interval,
            "verdict": self.verdict,
            "why": self.why,
        }

    def shown(self, value: float | None) -> str:
        """Return a value as people read it."""
        if value is None:
            return "unknown"
        show: Callable[[float], str] = {
            "step_time": moment,
            "start": duration,
            "peak_memory": bytes_,
        }.get(self.name, count)
        return show(value)


def machine_drift(before: Sequence[RunFacts], now: RunFacts) -> MachineDrift:
    """Return how far load and the machine's own speed may have moved the ratio of times."""
    faster = [_slower(now, run) for run in before]
    slower = [_slower(run, now) for run in before]
    return MachineDrift(
        up=_load(now) + max(0.0, *faster), down=max(map(_load, before)) + max(0.0, *slower)
    )


def _load(facts: RunFacts) -> float:
    cores = facts.machine_cores or facts.hardware.cores
    wanted = None if facts.threads is None else facts.threads + facts.workers
    return load_bound(facts.other_cores, cores, own=facts.own_cores, wanted=wanted)


def _slower(run: RunFacts, other: RunFacts) -> float:
    """Return by how much the machine did fixed work slower in `run`, as a logarithm."""
    shared = run.reference.keys() & other.reference.keys()
    return max(
        (math.log(run.reference[name] / other.reference[name]) for name in shared), default=0.0
    )


def changed_figures(
    before: Sequence[RecordedRun], now: RecordedRun, differences: Sequence[Unlike]
) -> tuple[FigureChange, ...]:
    """Return the change of each of FIGURES; `differences` say which cannot be compared."""
    drift = machine_drift([run.facts for run in before], now.facts)
    return tuple(_figure(name, before, now, drift, differences) for name in FIGURES)


def _figure(
    name: str,
    before: Sequence[RecordedRun],
    now: RecordedRun,
    drift: MachineDrift,
    differences: Sequence[Unlike],
) -> FigureChange:
    values = [_value(name, run) for run in (now, *before)]
    known = [value for value in values if value is not None]
    mine = values[0]
    theirs = statistics.fmean(known[1:]) if len(known) == len(values) else None
    subject = {"peak_memory": MEMORY, "waits_per_step": WAITS}.get(name, TIMES)
    if len(known) < len(values):
        change = Change(why=_unknown(name, before, now))
    elif why := reasons(differences, subject):
        change = Change(why=why)
    else:
        change = _change(name, before, now, drift)
    return FigureChange(
        name=name,
        before=theirs,
        now=mine,
        change=change,
        verdict=_word(name, change),
        why=change.why,
    )


def _unknown(name: str, before: Sequence[RecordedRun], now: RecordedRun) -> str:
    where = [run.name for run in (*before, now) if _value(name, run) is None]
    return f"it is not known of {', '.join(where)}"


def _value(name: str, run: RecordedRun) -> float | None:
    facts = run.facts
    step = typical([*run.times.values()]) or None
    match name:
        case "samples_per_s" | "tokens_per_s":
            each = facts.samples if name == "samples_per_s" else facts.tokens
            return each / step if each and step else None
        case "step_time":
            return step
        case "start":
            return facts.start
        case "peak_memory":
            return facts.peak_bytes
    return facts.waits


def _change(
    name: str, before: Sequence[RecordedRun], now: RecordedRun, drift: MachineDrift
) -> Change:
    """Return the change of the cost behind a figure that is known of all runs."""
    values = [_value(name, run) or 0.0 for run in before], _value(name, now) or 0.0
    if name == "waits_per_step":
        counts = [
            (round((run.facts.waits or 0.0) * run.facts.counted_steps), run.facts.counted_steps)
            for run in (now, *before)
        ]
        return change_of_counts(counts[1:], counts[0])
    if name == "start":
        return change_of_values(*values, scatter=_STARTS, drift=drift)
    if name == "peak_memory":
        if len({run.facts.peak_of for run in (*before, now)}) > 1:
            return Change(why="one is of the GPU, one of the process")
        return change_of_values(*values, scatter=_MEMORIES)
    change = change_of_steps([run.times for run in before], now.times, drift=drift)
    if name == "step_time":
        return change
    sizes = [run.facts.samples if name == "samples_per_s" else run.facts.tokens for run in before]
    mine = now.facts.samples if name == "samples_per_s" else now.facts.tokens
    return change.over(statistics.fmean(size or 0.0 for size in sizes) / (mine or 1.0))


def _word(name: str, change: Change) -> str:
    verdict = change.verdict()
    if name not in ("peak_memory", "waits_per_step"):
        return verdict
    return {"SLOWER": "MORE", "FASTER": "LESS"}.get(verdict, verdict)
