"""The key figures of a run: a few numbers, each with its unit and its basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hotloop.core.units import bytes_, count, duration, many
from hotloop.report.markup import UNKNOWN

if TYPE_CHECKING:
    from hotloop.report.facts import Facts

__all__ = ["Basis", "Figure", "figure", "figures", "loss_in_words", "open_processes"]

Basis = Literal["run", "validation", "machine", "speed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number as it is shown to a reader."""

    name: str
    number: float | None  # in `unit`; None is unknown
    unit: str
    shown: str
    rests_on: str  # the basis of the number in words, or why it is unknown
    basis: Basis = "run"  # what two runs must have in common for a comparison


def figures(run: Facts) -> list[Figure]:
    """Return the key figures."""
    scores = [] if run.best_score is None else [_score(run)]
    return [*scores, _best(run), _steps(run), _throughput(run), _memory(run), _wall(run), _mfu(run)]


def loss_in_words(run: Facts, loss: float) -> str:
    """Return a loss, with its unit if it is known."""
    return f"{loss:.4f} {run.loss_unit or ''}".rstrip()


def open_processes(run: Facts) -> int:
    """Return how many processes did not record how they ended."""
    return sum(process.reason is None for process in run.history.processes)


def figure(
    name: str,
    unit: str,
    rests_on: str,
    number: float | None = None,
    shown: str = UNKNOWN,
    basis: Basis = "run",
) -> Figure:
    """Return a figure; `rests_on` is its basis, or why it is unknown."""
    return Figure(name=name, number=number, unit=unit, shown=shown, rests_on=rests_on, basis=basis)


def _best(run: Facts) -> Figure:
    name, unit = "best validation loss", run.loss_unit or ""
    if run.best is None:
        return figure(name, unit, "no validation was made")
    loss, step = run.best
    shown = loss_in_words(run, loss)
    return figure(name, unit, _which(run, step), loss, shown, "validation")


def _which(run: Facts, step: int) -> str:
    return f"at step {step:,}, of {many(len(run.history.validations), 'validation')}"


def _of_first(run: Facts) -> str:
    return "" if run.ranks is None else " of rank 0"


def _score(run: Facts) -> Figure:
    assert run.best_score is not None
    score, step = run.best_score
    name = f"best {run.judged_by}"
    return figure(name, "", _which(run, step), score, f"{score:.4f}", "validation")


def _steps(run: Facts) -> Figure:
    steps = run.history.steps
    last, tokens = steps[-1].trace.step if steps else 0, sum(step.trace.tokens for step in steps)
    planned = UNKNOWN if run.planned_steps is None else f"{run.planned_steps:,}"
    rests = f"of {planned}; {count(tokens)} tokens{_of_first(run)}"
    return figure("steps", "steps", rests, last, f"{last:,}")


def _throughput(run: Facts) -> Figure:
    name, unit, speed = "throughput", "tokens/s", run.throughput
    if speed is None and run.ranks is not None and not run.ranks.tokens:
        return figure(name, unit, "the logs of some ranks are missing")
    if speed is None:
        return figure(name, unit, "no step after the warm-up")
    of = f"n = {speed.n:,}" + (f" x {run.stride} steps" if run.stride > 1 else " steps")
    rests = f"median, {of}"
    if speed.quartiles is not None:
        low, high = speed.quartiles
        rests = f"median; quartiles {count(low)} to {count(high)}; {of}"
    if run.ranks is not None:
        rests += f"; of all {run.ranks.world} ranks"
    if why := speed.why_unstable():
        rests += f"; unsteady: {why}"
    return figure(name, unit, rests, speed.median, f"{count(speed.median)} {unit}", "speed")


def _memory(run: Facts) -> Figure:
    name = "peak memory"
    if (peak := run.peak_memory) is None:
        return figure(name, "bytes", "the run wrote no memory readings")
    n = sum(reading.memory_bytes is not None for reading in run.history.readings)
    whose = "of the process" if run.hardware and run.hardware.device == "cpu" else "in tensors"
    rests = f"{whose}{_of_first(run)}; highest of {many(n, 'reading')}"
    return figure(name, "bytes", rests, peak, bytes_(peak), "machine")


def _wall(run: Facts) -> Figure:
    name, total = "wall time", sum(run.wall.values())
    if not run.history.processes:
        return figure(name, "s", "no process has written an event")
    n, silent = len(run.history.processes), open_processes(run)
    rests = f"{run.wall.get('step', 0.0) / (total or 1.0):.1%} in steps"
    rests += f"; {n} processes" if n > 1 else ""
    if silent:
        return figure(name, "s", rests, None, f"at least {duration(total)}", "machine")
    return figure(name, "s", rests, total, duration(total), "machine")


def _mfu(run: Facts) -> Figure:
    name, peak = "MFU", run.peak_flops
    if run.flops_per_token is None:
        return figure(name, "", "the run does not say what a token costs")
    if peak is None:
        return figure(name, "", "the peak is unknown: train with --measure-peak")
    if run.shares_device:
        return figure(name, "", "its ranks share the processor that the peak is of")
    if run.mfu is None:
        return figure(name, "", "no step after the warm-up")
    rests = f"of {_flops(peak.median)} in {run.precision}, {peak.source}"
    return figure(name, "", rests, run.mfu, f"{run.mfu:.1%}", "speed")


def _flops(rate: float) -> str:
    size, unit = (1e12, "TFLOP/s") if rate >= 1e12 else (1e9, "GFLOP/s")
    return f"{rate / size:.3g} {unit}"
