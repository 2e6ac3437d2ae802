"""Times whole runs of a script, as it is and under a plan: what a user gains in the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from hotloop.core.tuning_result import WholeRun
from hotloop.process import child
from hotloop.tuning.script_target import environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.case.case import Case
    from hotloop.core.plan import Plan
    from hotloop.core.tuning_result import TuneRow
    from hotloop.tuning.script_target import Script

__all__ = ["RUNS", "estimated", "expected_seconds", "measured"]

RUNS: Final = 4  # whole runs that are timed, at most: as it is, under the plan, and again
_CLEAR: Final = 1.2  # times as fast in the first two: no others are made
_LIMIT: Final = 3.0  # times the longest run so far that a run may take
_LEAST: Final = 30.0  # seconds beyond that


def expected_seconds(case: Case) -> float | None:
    """Return how long the script runs as it is, from what the doctor saw; None: unknown."""
    steps, time = case.total_steps, case.step_time
    if steps is None or time is None or not case.steps.count:
        return None
    start = sum(map(case.row, ("start", "import", "data load", "compile")))
    return start + steps * (time.median + _aside(case))


def estimated(case: Case, before: TuneRow, after: TuneRow) -> WholeRun | None:
    """Return the whole run as its start, its steps and what the doctor saw beside them."""
    steps = case.total_steps
    if steps is None or not case.steps.count:
        return None

    def whole(row: TuneRow) -> float | None:
        if row.step_time is None or row.started is None:
            return None
        pause = _aside(case) + row.step_time.median
        return row.started + (row.warm_up or 0.0) + steps * pause

    first, second = whole(before), whole(after)
    if first is None or second is None:
        return None
    return WholeRun(steps=steps, before=(first,), after=(second,), is_measured=False)


def _aside(case: Case) -> float:
    """Return the seconds of evaluations and saves, per step."""
    seconds = sum(span.seconds for span in case.evaluations)
    return (seconds + sum(save.seconds for save in case.saves)) / case.steps.count


def measured(
    script: Script, plan: Plan, *, steps: int | None, notify: Callable[[str], None]
) -> WholeRun | str:
    """Run the whole script as it is and under a plan by turns, and time them.

    A second pair of runs is made unless the first differs clearly. Returns why that cannot be told,
    where the script ends with an error. Raises KeyboardInterrupt on Ctrl-C.
    """
    uses = ",".join(use.typed for use in plan.techniques)
    tried = (sys.executable, "-m", "hotloop", "run", "-q", "--no-canary", "--with", uses)
    commands = {
        False: (sys.executable, *script.command),
        True: (*tried, "--out", f"{child.SCRATCH}/run", *script.command),
    }
    times: dict[bool, list[float]] = {False: [], True: []}
    for number, under_plan in enumerate((False, True, True, False), 1):
        notify(f"a whole run {'under the plan' if under_plan else 'as it is'}, {number} of {RUNS}")
        longest = max((*times[False], *times[True]), default=0.0)
        outcome = child.run(
            commands[under_plan],
            limits=child.ProcessLimits(seconds=_LEAST + _LIMIT * longest if longest else 3600.0),
            cwd=script.cwd,
            environment=environment(),
        )
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if not outcome.ok:
            who = "under the plan" if under_plan else "as it is"
            return f"a whole run {who} ended: {outcome.reason or outcome.status}"
        times[under_plan].append(outcome.seconds)
        if number == RUNS // 2 and times[False][0] > _CLEAR * times[True][0]:
            break
    return WholeRun(steps=steps, before=tuple(times[False]), after=tuple(times[True]))
