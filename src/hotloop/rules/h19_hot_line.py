"""One line of the project's own code takes a large part of the time, and is not the model's call.

Looks at: the call stacks of the steps: the innermost line of the project's own code, where no
    module of torch stands between it and the operation.
Says so when: one line holds 25 % of the time or more.
Stays silent when: the time goes through modules, as a model's should, or the line only calls the
    model, the loss or the backward pass.
Remedy: look at that line; what it builds may be larger than what is needed of it.
Numbers: depends on the remedy.
Seen: written after examples/blind/signal_codebook and cartpole_replay, which no rule named.
Source: hotloop.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.finding import Place, Remedy
from hotloop.judging.costing import costing
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding
    from hotloop.core.observed import Stack

__all__ = ["RULE"]

LEAST = 0.25
ROWS = ("prepare", "forward")  # D28 and H18 name lines of the other rows
MODULE = "nn/modules/module.py"


def judge(case: Case) -> Finding | None:
    """Add up the seconds of each line."""
    seconds: dict[Place, float] = defaultdict(float)
    callers: dict[Place, Place | None] = {}
    for stack in case.stacks:
        if stack.row in ROWS and (place := _line(stack)) is not None:
            seconds[place] += stack.seconds
            callers.setdefault(place, _caller(stack, place))
    if not seconds:
        return None
    place = max(seconds, key=lambda place: seconds[place])
    above = callers[place]
    return costing(
        case,
        seconds[place],
        least=LEAST,
        rule=RULE.label,
        claim=f"one line takes {case.part(seconds[place]):.0%} of the time, backward left out",
        places=[place, *([above] if above else [])],
        remedies=[
            Remedy(
                text="look at what this line makes and how large it is; hotloop doctor --profile "
                "lists its operators with their shapes",
                effort="code edit",
            )
        ],
    )


def _line(stack: Stack) -> Place | None:
    """Return the innermost own line, unless a module was called from it."""
    for frame in stack.frames:
        if frame.own:
            return Place(file=frame.file, line=frame.line)
        if MODULE in frame.file:
            return None
    return None


def _caller(stack: Stack, place: Place) -> Place | None:
    own = [Place(file=frame.file, line=frame.line) for frame in stack.frames if frame.own]
    return next((each for each in own if each != place), None)


RULE = Rule(
    id="H19",
    name="hot_line",
    title="One line takes a large part of the time",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    weight=1,
)
