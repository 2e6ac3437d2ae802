"""Measures a script's largest possible gains and hottest operators by short child runs.

Each child runs the unmodified script for a few steps with HOTLOOP_CHILD=1 and one cost removed
(observe/whatif/without_one_cost.py, observe/whatif/batch_replay.py). It writes the same files as
the script; only the "no logging" child saves nothing once training has begun. Weights & Biases
stays offline. The results of a child are meaningless: its losses must not be used.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from hotloop.core import codec
from hotloop.core.case.environment import Ceiling, Operator
from hotloop.core.errors import DataError
from hotloop.observe.whatif.short_run import PROFILED, ShortRunRequest, ShortRunResult, command
from hotloop.process import child

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.observe.whatif.short_run import Kind

__all__ = ["Name", "Profiled", "measure", "profile"]

Name = Literal["compute", "no logging", "no optimizer", "loader alone"]
Progress = Callable[[str, child.Beat], None]  # the running kind, and its sign of life

# The baseline runs first and in the middle, so that a change of the machine shows.
ORDER: Final[tuple[Kind, ...]] = (
    *("baseline", "compute", "loader alone", "baseline", "no logging", "no optimizer"),
)
WARM: Final = 5  # untimed first steps: allocations, compilation, the start of workers
FEWEST: Final = 5  # timed steps; fewer prove nothing
UNSTEADY: Final = 1.10  # largest ratio of the medians of two baseline runs
_GRACE: Final = 30.0  # seconds beyond its own limit until a child is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """The hottest operators, hottest first."""

    operators: tuple[Operator, ...] = ()
    why_not: str | None = None  # why there are none


def measure(
    script: Sequence[str],
    *,
    cwd: str | Path | None = None,
    steps: int = 40,
    seconds: float = 120.0,
    limit_bytes: int | None = None,
    names: Sequence[Name] = ("compute", "loader alone", "no logging", "no optimizer"),
    progress: Progress | None = None,
) -> tuple[Ceiling, ...]:
    """Run `script` (the arguments of `python`) with one cost removed at a time.

    `seconds` and `limit_bytes` (of memory) apply to each of up to six children. Returns the
    baseline and one Ceiling per name; its factor is the median step of the baseline over the median
    step without the cost. Raises KeyboardInterrupt on Ctrl-C, once the child is dead.
    """
    reports: dict[Kind, list[ShortRunResult]] = {}
    for kind in [kind for kind in ORDER if kind == "baseline" or kind in names]:
        request = ShortRunRequest(
            kind=kind, result=child.RESULT, steps=steps, warm=WARM, seconds=seconds
        )
        report = _run(request, script, cwd, limit_bytes, progress)
        reports.setdefault(kind, []).append(report)
        if kind == "baseline" and _why_not(report):
            break
    return _ceilings(reports, names)


def profile(
    script: Sequence[str],
    *,
    cwd: str | Path | None = None,
    seconds: float = 120.0,
    limit_bytes: int | None = None,
    progress: Progress | None = None,
) -> Profiled:
    """Profile a few steps of `script` (the arguments of `python`); return the ten hottest
    operators.

    Times are self times, on the GPU if there is one, and include the profiler's own cost. Raises
    KeyboardInterrupt on Ctrl-C, once the child is dead.
    """
    request = ShortRunRequest(
        kind="profile", result=child.RESULT, steps=PROFILED + 1, warm=WARM, seconds=seconds
    )
    report = _run(request, script, cwd, limit_bytes, progress)
    return Profiled(operators=report.operators, why_not=report.why)


def _run(
    request: ShortRunRequest,
    script: Sequence[str],
    cwd: str | Path | None,
    limit_bytes: int | None,
    progress: Progress | None,
) -> ShortRunResult:
    outcome = child.run(
        command(request, tuple(script)),
        limits=child.ProcessLimits(seconds=request.seconds + _GRACE, memory=limit_bytes),
        cwd=cwd,
        environment=_environment(request.kind),
        progress=progress and (lambda beat: progress(request.kind, beat)),
    )
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.result is None:
        return ShortRunResult(why=outcome.reason)
    try:
        return codec.from_json(ShortRunResult, outcome.result)
    except DataError as error:  # the script overwrote it
        return ShortRunResult(why=f"its result cannot be read: {error}")


def _environment(kind: Kind) -> Mapping[str, str]:
    """Return the variables to set for a child in addition to those of this process."""
    silent = {"WANDB_MODE": "disabled", "TQDM_DISABLE": "1"} if kind == "no logging" else {}
    return child.quiet() | silent


def _why_not(report: ShortRunResult) -> str | None:
    if len(report.step_time) >= FEWEST:
        return None
    return report.why or f"only {len(report.step_time)} steps were timed, {FEWEST} are needed"


def _ceilings(
    reports: Mapping[Kind, Sequence[ShortRunResult]], names: Sequence[Name]
) -> tuple[Ceiling, ...]:
    base = reports["baseline"]
    why_not = next((why for why in map(_why_not, base) if why), None)
    readings = tuple(time for report in base for time in report.step_time)
    baseline = Ceiling(name="baseline", step_time=readings, why_not=why_not)
    if why_not:
        why = f"there is no baseline: {why_not}"
        return baseline, *(Ceiling(name=name, why_not=why) for name in names)
    medians = [statistics.median(report.step_time) for report in base]
    return baseline, *(_ceiling(name, reports[name][0], medians) for name in names)


def _ceiling(name: Name, report: ShortRunResult, baselines: Sequence[float]) -> Ceiling:
    """Compare one child with the baseline runs before and after it."""
    if why_not := _why_not(report):
        return Ceiling(name=name, step_time=report.step_time, why_not=why_not)
    factor = statistics.fmean(baselines) / statistics.median(report.step_time)
    apart = max(baselines) / min(baselines)
    if apart > UNSTEADY and 1 / apart < factor < apart:
        why = f"cannot be told: two runs without any change differ by {apart - 1:.0%}"
        return Ceiling(name=name, step_time=report.step_time, why_not=why)
    return Ceiling(name=name, step_time=report.step_time, factor=factor)
