"""What is left of the run is too short for torch.compile to pay back.

Looks at: how many steps the run has, and how long one takes.
Says so when: all steps together take less than 11 s, the least that compiling took.
Stays silent when: the length of the run is unknown, it is compiled already, or the GPU waits for
    the host (compiling can give more then).
Remedy: leave it uncompiled.
Numbers: none.
Seen: examples/slow/accelerate/evaluation_bound.py, examples/slow/accelerate/pad_to_max.py.
Source: page of compile: 11-24 s on two cores.
"""

from hotloop.core.units import duration, moment
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]

COLD = 11.0  # seconds
STARVED = 0.80  # of the steps, as in H1


def judge(case: Case) -> Finding | None:
    """Compare the largest possible saving with the smallest cost."""
    step, steps = case.step_time, case.total_steps
    compiled = case.process.graphs or any(model.compiled for model in case.models)
    if step is None or not steps or compiled or (case.steps.starved or 0.0) >= STARVED:
        return None
    gain = steps * step.median  # the whole time: the real saving is unknown
    if gain >= COLD:
        return None
    return Finding(
        claim=f"compiling would not pay back: {steps:,} steps of {moment(step.median)} "
        f"take {duration(gain)} in all, and it takes {COLD:.0f} s or more",
        severity="note",
        remedies=[Remedy(text="leave torch.compile out of runs this short", technique="compile")],
    )


RULE = Rule(
    title="Too few steps to compile for",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="not worth it",
)
