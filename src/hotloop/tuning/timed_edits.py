"""Times a script with suggested changes beside the same script under the plan."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.core.plan import Plan
from hotloop.core.trial import FEWEST, compare
from hotloop.core.units import duration, many, moment
from hotloop.tuning.edited_copy import NO_GIT, edited_copy, why_not_applied
from hotloop.tuning.interleaved_timing import LEAST_STEPS, RaceLength, race
from hotloop.tuning.script_target import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.trial import Comparison
    from hotloop.diagnosis.diff import Suggested

__all__ = ["summary"]

_SECONDS: Final = 90.0  # after which no further pair of processes is started
_PAIRS: Final = 4  # of processes, at most
_LONGEST: Final = 240.0  # seconds of one pair of processes, beyond which none is started


def summary(
    script: Path,
    args: Sequence[str],
    plan: Plan,
    suggested: Suggested,
    *,
    look: Callable[[], Hardware],
    notify: Callable[[str], None] = lambda _: None,
) -> str:
    """Return a sentence: whether the changes apply, run, and are as fast as the plan.

    `args` are those of the script without the changes; `look` detects the hardware.
    """
    if not suggested.changes(args):
        return "nothing changes: see the reasons above"
    unsure = why_not_applied(suggested) if suggested.files else None
    if unsure not in (None, NO_GIT):
        return f"{unsure}"
    done = ["applies"] if suggested.files and unsure is None else []
    is_retyped = suggested.args != tuple(args)
    done.append("runs" + " with the changed command line" * (is_retyped and bool(suggested.files)))
    what = "the diff" if suggested.files else "the changed command line"
    times = _times(script, args, plan, suggested, look, notify)
    end = "" if unsure is None else f"; {unsure}"
    if isinstance(times, str):
        return (
            f"{what} {' and '.join(done)}; its time was not compared with the plan's: {times}{end}"
        )
    said = ", ".join(done)
    ours, plans, comparison = times
    return (
        f"{what} {said} and takes {moment(ours)} a step; the plan takes {moment(plans)} "
        f"({comparison.verdict}: {comparison.why}){end}"
    )


def _times(
    script: Path,
    args: Sequence[str],
    plan: Plan,
    suggested: Suggested,
    look: Callable[[], Hardware],
    notify: Callable[[str], None],
) -> tuple[float, float, Comparison] | str:
    """Return the seconds of a step with the changes and under the plan; or why they are unknown."""
    if sys.platform == "win32":
        return "runs are compared by turns on Linux and macOS only"
    if suggested.total is not None and suggested.total < LEAST_STEPS:
        return f"it makes {many(suggested.total, 'step')}, and {LEAST_STEPS} are needed"
    if suggested.step is not None and 2 * LEAST_STEPS * suggested.step > _LONGEST:
        long = duration(2 * LEAST_STEPS * suggested.step)
        return f"a step takes {moment(suggested.step)}, and a comparison {long}: run both yourself"
    notify("timing it beside the plan")
    hardware = look()
    # The script must not come to its end, where it would write its results.
    total = None if suggested.total is None else suggested.total - 1
    with edited_copy(script, suggested) as edited:
        commands = ((str(script), *args), (str(edited), *suggested.args))
        entries = [
            Script(command=command, cwd=Path.cwd(), hardware=hardware).entry(
                under, epochs=0, needs=()
            )
            for command, under in zip(commands, (plan, Plan(micro_batch=1)), strict=True)
        ]
        deadline = time.perf_counter() + _SECONDS
        pace = RaceLength(
            rounds=FEWEST, pairs=_PAIRS, hopeless=math.inf, total=total, deadline=deadline
        )
        under_plan, ours = race(entries, pace, notify=notify)
    comparison = compare(ours, under_plan)
    if comparison.ratio is None or ours.step_time is None or under_plan.step_time is None:
        return comparison.why
    return ours.step_time.median, under_plan.step_time.median, comparison
