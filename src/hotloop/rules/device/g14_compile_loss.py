"""Compiling takes a large part of the run, which it must save to pay back.

Looks at: the time of compiling, the step time, and how many steps the run has.
Says so when: compiling takes 10 % of the run. It tells what a step must get faster by, and when
    that is more than the step itself. Before a run: the same of the forecast.
Stays silent when: it takes less, or nobody knows how long the run is.
Remedy: leave torch.compile out of short runs, or keep compiled kernels between runs.
Numbers: rounding; uncompiled code rounds at other places.
Seen: examples/planted/compiled_lengths.py.
Source: hotloop; 11-24 s for a gain of 4-9 % on two cores (page of compile).
"""

from hotloop.core.units import duration, moment
from hotloop.rules.base import WARN, Case, Finding, Needs, PlannedRun, Rule, code_edit, option
from hotloop.rules.support.costs import costing, whole_run
from hotloop.rules.support.forecast import of_row
from hotloop.rules.support.idioms import compiling
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Divide the compile time by the number of steps."""
    seconds = max(case.row("compile"), case.process.compile_seconds)
    total, step = whole_run(case), case.step_time
    if not case.process.graphs or total is None or step is None:
        return None
    steps = case.total_steps or case.steps.count
    return costing(
        case,
        seconds,
        least=WARN,
        of=total,
        claim=_claim(seconds, total, steps, step.median),
        places=compiling(parse(case.sources)),
        remedies=[
            code_edit("leave torch.compile out, and compare"),
            option("set TORCHINDUCTOR_CACHE_DIR to a folder that stays"),
        ],
    )


def _claim(seconds: float, total: float, steps: int, step: float) -> str:
    """Return the claim: the share of compiling, and the gain per step that would pay it back."""
    needed = seconds / steps
    pays = f"pays back only if it makes a step, now {moment(step)}, faster by {moment(needed)}"
    if needed >= step:
        pays = f"cannot pay back in {steps:,} steps of {moment(step)}"
    return f"compiling takes {duration(seconds)}, {seconds / total:.0%} of the run: it {pays}"


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    time = planned.time
    if time is None or time.share("compile") < WARN:
        return None
    return of_row(
        time,
        "compile",
        claim=_claim(time.rows["compile"], time.seconds, time.steps, time.step),
        remedies=[option("look at the same command with --without compile")],
    )


RULE = Rule(
    title="Compiling may cost more than it saves",
    judge=judge,
    needs=(Needs.STEPS,),
    before_run=_before_run,
    numerics="rounding",
)
