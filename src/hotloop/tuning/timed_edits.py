"""Times a script with suggested changes beside the same script under the plan."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.core.plan import Plan
from hotloop.core.trial import FEWEST, compare
from hotloop.core.units import duration, many, moment
from hotloop.diagnosis.diff import suggest
from hotloop.tuning.edited_copy import NO_GIT, edited_copy, why_not_applied
from hotloop.tuning.interleaved_timing import LEAST_STEPS, race
from hotloop.tuning.lane import RaceLength
from hotloop.tuning.races import keeping_memory
from hotloop.tuning.script_target import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.trial import Comparison, Trial
    from hotloop.diagnosis.diff import Suggested
    from hotloop.tuning.lane import Entry

__all__ = ["compared"]

_SECONDS: Final = 60.0  # after which no further pair of processes is started
_LONGEST: Final = 240.0  # seconds of one pair of processes, beyond which none is started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """The time of a step with the changes, beside that under the plan."""

    ours: float  # seconds
    plans: float  # seconds
    comparison: Comparison
    refused: Mapping[str, str]  # techniques that are not in effect under the plan, and why


@dataclass(frozen=True, slots=True)
class _Beside:
    """A script with its arguments, and the plan that changes of it are compared with."""

    script: Path
    args: Sequence[str]
    plan: Plan
    look: Callable[[], Hardware]
    notify: Callable[[str], None]
    race: Callable[[Sequence[Entry], RaceLength], Sequence[Trial]]


def compared(
    script: Path,
    args: Sequence[str],
    plan: Plan,
    suggested: Suggested,
    *,
    look: Callable[[], Hardware],
    edit_defaults: bool = False,
    notify: Callable[[str], None] = lambda _: None,
    race: Callable[[Sequence[Entry], RaceLength], Sequence[Trial]] = race,
) -> tuple[Suggested, str]:
    """Return the changes, and a sentence: whether they apply, run, and are as fast as the plan.

    Where they are slower, techniques that `hotloop run` does not put into this script are left out,
    and the others are compared again. `args` are those of the script without the changes; `look`
    detects the hardware, and `race` is a seam.
    """
    beside = _Beside(script, args, plan, look, notify, race)
    if not suggested.changes(args):
        return suggested, "nothing changes, for the reasons above"
    refusal = why_not_applied(suggested) if suggested.files else None
    if refusal not in (None, NO_GIT):
        return suggested, f"{refusal}"
    times = _times(beside, suggested)
    if isinstance(times, _Times) and times.comparison.verdict == "SLOWER":
        kept = tuple(use for use in suggested.uses if use.id not in times.refused)
        if len(kept) < len(suggested.uses):
            fewer = suggest(
                script, replace(plan, techniques=kept), args, edit_defaults=edit_defaults
            )
            gone = {use.id for use in suggested.uses} - {use.id for use in kept}
            notes = [n for n in suggested.notes if n.partition(":")[0] not in gone]
            notes += [f"{id}: left out, {_why_left(id, times)}" for id in sorted(gone)]
            suggested = replace(
                fewer, notes=tuple(notes), least=suggested.least, step=suggested.step
            )
            if not kept:
                return suggested, "nothing changes, for the reasons above"
            times = _times(beside, suggested)
    return suggested, _sentence(beside, suggested, times, refusal)


def _why_left(id: str, times: _Times) -> str:
    return (
        f"for hotloop run does not put it in here ({times.refused[id]}), and with the change "
        f"{times.comparison.why}"
    )


def _sentence(
    beside: _Beside, suggested: Suggested, times: _Times | str, unsure: str | None
) -> str:
    """Say what of the changes has been shown; `unsure` is why git did not try them."""
    is_retyped = suggested.args != tuple(beside.args)
    done = ["applies"] if suggested.files and unsure is None else []
    done.append("runs" + " with the changed command line" * (is_retyped and bool(suggested.files)))
    what = "the diff" if suggested.files else "the changed command line"
    end = "" if unsure is None else f"; {unsure}"
    if isinstance(times, str):
        return (
            f"{what} {' and '.join(done)}; its time was not compared with the plan's: {times}{end}"
        )
    missing = [use.id for use in suggested.uses if use.id in times.refused]
    end += "".join(f"; under the plan {id} is {times.refused[id]}" for id in missing)
    return (
        f"{what} {', '.join(done)} and takes {moment(times.ours)} a step; the plan takes "
        f"{moment(times.plans)} ({times.comparison.verdict}: {times.comparison.why}){end}"
    )


def _times(beside: _Beside, suggested: Suggested) -> _Times | str:
    """Time the script with the changes and under the plan by turns; or say why not."""
    if sys.platform == "win32":
        return "runs are compared by turns on Linux and macOS only"
    if suggested.least is None:
        return (
            "it is not known how many steps the script makes, and it must not come to its end "
            "here, where it writes its results"
        )
    if suggested.least < LEAST_STEPS:
        steps = many(suggested.least, "step")
        return f"{steps} are sure to be made, and {LEAST_STEPS} are needed"
    if suggested.step is not None and 2 * LEAST_STEPS * suggested.step > _LONGEST:
        long = duration(2 * LEAST_STEPS * suggested.step)
        return f"a step takes {moment(suggested.step)}, and a comparison {long}"
    beside.notify("timing it beside the plan")
    as_it_is = Script(command=(), cwd=Path.cwd(), detect=beside.look)
    with edited_copy(beside.script, suggested) as edited, as_it_is.forking() as script:
        tried = {
            (str(beside.script), *beside.args): beside.plan,
            (str(edited), *suggested.args): Plan(micro_batch=1),
        }
        entries = keeping_memory(
            [
                replace(script, command=command).entry(plan, epochs=0, needs=())
                for command, plan in tried.items()
            ]
        )
        deadline = time.perf_counter() + _SECONDS
        pace = RaceLength(
            rounds=FEWEST,
            hopeless=math.inf,
            total=suggested.least - 1,
            deadline=deadline,
        )
        under_plan, ours = beside.race(entries, pace)
    comparison = compare(ours, under_plan)
    if comparison.ratio is None or ours.step_time is None or under_plan.step_time is None:
        return comparison.why
    return _Times(
        ours=ours.step_time.median,
        plans=under_plan.step_time.median,
        comparison=comparison,
        refused={
            id: f"{word}: {how}"
            for id, (word, how) in sorted(under_plan.effects.items())
            if word != "in effect"
        },
    )
