"""Makes the chosen experiments in a process of their own."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.core import codec
from hotloop.core.case.experiment import BUDGET, MANY, NO_GAIN, Experiment
from hotloop.core.errors import DataError
from hotloop.core.units import duration
from hotloop.observe.experiments.new_files import made_since
from hotloop.observe.experiments.trial import (
    LONGEST,
    TEMPORARY,
    TrialRequest,
    TrialResult,
    command,
)
from hotloop.process import child
from hotloop.process.launchers import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from hotloop.core.case.case import Case

__all__ = ["with_experiments"]

_START: Final = 10.0  # seconds that the start of the script may take beyond the budget
_STEPS: Final = 12  # steps for which there is time, however slow they are
_SLOWEST: Final = 4.0  # times the budget, at most, to make them
_ROOM: Final = 1.2  # of the memory that the script uses
_VARYING: Final = 0.25  # spread of the steps' times from which the calls of models are counted
_LAST: Final = "kept memory"
_TRIES: Final = 3  # processes, if the script raises under a change or is too short for all


def with_experiments(
    case: Case,
    experiments: Sequence[Experiment],
    script: Sequence[str],
    *,
    cwd: Path,
    seconds: float = BUDGET,
    before: frozenset[str] | None = None,
    progress: Callable[[child.Beat], None] | None = None,
) -> Case:
    """Make experiments on `script` (the arguments of `python`); return the case with the results.

    `seconds` is the time for timed steps, more if these are slow; `before` is what `cwd` had before
    the script was observed (new_files.entries_of): the experiments do not see what it made since.
    Raises KeyboardInterrupt on Ctrl-C, once the process is dead.
    """
    if not experiments:
        return case
    if case.process.world > 1:
        return _without(case, "the run has several ranks")
    if (why := _no_room()) is not None:
        return _without(case, why)
    start = sum(map(case.row, ("start", "import", "data load", "compile")))
    if start > _START + seconds:
        return _without(case, f"the script needs {duration(start)} until its first step")
    limit = 2 * start + _START
    request = TrialRequest(
        result=child.RESULT,
        scratch=child.SCRATCH,
        experiments=tuple(experiments),
        start=limit,
        seconds=min(max(seconds, _STEPS * _step(case)), _SLOWEST * seconds),
        total=case.total_steps,
        varies=case.step_time is not None and (case.step_time.spread or 0.0) >= _VARYING,
        new_files=made_since(before, cwd),
    )
    began = time.monotonic()
    done, result = _in_turn(request, script, cwd, seconds, progress)
    if result.raised_with is None and result.why_not is not None and not done:
        case = _without(case, result.why_not)
    took = time.monotonic() - began
    return replace(case, experiments=(*case.experiments, *done), experiments_time=took)


def _in_turn(
    request: TrialRequest,
    script: Sequence[str],
    cwd: Path,
    seconds: float,
    progress: Callable[[child.Beat], None] | None,
) -> tuple[tuple[Experiment, ...], TrialResult]:
    """Make experiments in one process, or in several where one is too short.

    Returns them all, and the result of the last process.
    """
    done: tuple[Experiment, ...] = ()
    later: tuple[Experiment, ...] = ()
    gains: dict[Experiment, tuple[float, ...]] = {}
    began = time.monotonic()
    for _ in range(_TRIES):
        result = _tried(request, script, cwd, progress)
        if (done or gains) and not result.experiments and result.raised_with is None:
            rest = (*request.experiments, *later)  # what earlier processes showed is told
            return (*done, *_without_gain(rest, result.why_not)), result
        unsettled = _unsettled(result)
        gains |= unsettled
        done, left = _sorted_out(request.experiments, result, done, unsettled)
        left = (*left, *later)
        took = time.monotonic() - began
        is_late = took > request.start + LONGEST * request.seconds
        # What comes last of all gets a process of its own, where one is too short and time is left.
        last = tuple(one for one in left if result.ended and one.name == _LAST)
        if took > seconds:
            done = (*done, *_without_gain(last, result.ended))
            left, last = tuple(one for one in left if one not in last), ()
        if not left or (result.ended and is_late):
            break
        later = tuple(one for one in left if last and one not in last)
        again = last or left
        known = tuple(gains.get(one, ()) for one in again)
        request = replace(request, experiments=again, earlier=known)
    return (*done, *_without_gain(left, result.ended or "the script raises under others")), result


def _without_gain(experiments: Sequence[Experiment], why_not: str | None) -> list[Experiment]:
    """Return the experiments; of those without a gain it is told why they have none."""
    return [one if one.gain is not None else replace(one, why_not=why_not) for one in experiments]


def _step(case: Case) -> float:
    """Return the seconds of a step."""
    return 0.0 if case.step_time is None else case.step_time.median


def _tried(
    request: TrialRequest,
    script: Sequence[str],
    cwd: Path,
    progress: Callable[[child.Beat], None] | None,
) -> TrialResult:
    """Make experiments in a process of their own."""
    result = _tried_once(request, script, cwd, progress)
    if "Wandb" in (result.why_not or ""):  # the shield keeps its service away
        result = _tried_once(request, script, cwd, progress, WANDB_MODE="disabled")
    return result


def _tried_once(
    request: TrialRequest,
    script: Sequence[str],
    cwd: Path,
    progress: Callable[[child.Beat], None] | None,
    **more: str,
) -> TrialResult:
    """Start one process; `more` goes into its environment.

    What a launcher would start runs in the process itself: its steps are seen there only.
    """
    own, variables = launched(script)
    outcome = child.run(
        command(request, own),
        limits=child.ProcessLimits(seconds=request.start + LONGEST * request.seconds + _START),
        cwd=cwd,
        environment={
            **child.quiet(),
            "TMPDIR": f"{child.SCRATCH}/{TEMPORARY}",
            "MLFLOW_TRACKING_URI": f"file://{child.SCRATCH}/mlruns",
            **variables,
            **more,
        },
        progress=progress,
    )
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.result is None:
        return TrialResult(why_not=outcome.reason or outcome.status)
    try:
        return codec.from_json(TrialResult, outcome.result)
    except DataError as error:
        return TrialResult(why_not=f"their result cannot be read: {error}")


def _unsettled(result: TrialResult) -> dict[Experiment, tuple[float, ...]]:
    """Return the experiments that a short script left with few blocks which differ too much.

    The values are the gains of these blocks.
    """
    return {
        one: gains
        for one, gains in zip(result.experiments, result.gains, strict=True)
        if result.ended is not None and result.raised_with is None and gains
        if one.outcome == "unknown" and one.blocks < MANY and (one.gain or 1.0) >= NO_GAIN
    }


def _sorted_out(
    experiments: tuple[Experiment, ...],
    result: TrialResult,
    done: tuple[Experiment, ...],
    unsettled: Collection[Experiment],
) -> tuple[tuple[Experiment, ...], tuple[Experiment, ...]]:
    """Return the experiments that are done, and those to make again.

    Those are the others of one under which the script raised, and those for which it was too short,
    among them the `unsettled` ones. `done` are those of the processes before.
    """
    if result.raised_with is None:
        ended = result.ended
        short = [one for one in result.experiments if ended is not None and one.why_not == ended]
        if len(short) == len(experiments):  # another process would come no further
            short = []
        again = (*unsettled, *(replace(one, why_not=None) for one in short))
        rest = [one for one in result.experiments if one not in short and one not in unsettled]
        return (*done, *rest), again
    results = list(result.experiments or experiments)
    raised = results.pop(result.raised_with)
    done = (*done, *(one for one in results if one.gain is not None))
    left = [replace(one, why_not=None) for one in results if one.gain is None]
    places = tuple(place for place in raised.places if place != result.raised_at)
    if result.raised_at is not None and places:
        left.append(replace(raised, places=places, why_not=None))
    elif raised.gain is not None:
        done = (*done, raised)
    else:
        why = raised.why_not or result.why_not or "the script raises under it"
        done = (*done, replace(raised, why_not=why))
    return done, tuple(left)


def _no_room() -> str | None:
    """Return why there is no memory for a second process like this one, or None."""
    used = psutil.Process().memory_info().rss
    if psutil.virtual_memory().available < _ROOM * used:
        return "the host's memory has no room for a second process of the script"
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        free, _ = torch.cuda.mem_get_info()
        if free < _ROOM * torch.cuda.max_memory_reserved():
            return "the GPU's memory has no room for a second process of the script"
    return None


def _without(case: Case, why: str) -> Case:
    return replace(case, not_checked=(*case.not_checked, f"experiments: {why}"))
