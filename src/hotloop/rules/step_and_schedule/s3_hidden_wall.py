"""Much of the wall time passes outside the steps.

Looks at: the wall time by row, and where the script's own timer stops.
Says so when: evaluating, saving, sleeping and, where it lasts a minute or more, starting, loading,
    compiling and ending take 20 % of the wall time or more. It says so where the script's own timer
    ends before the costly line, so that its printed times hide it.
Stays silent when: they take less, or a stopped run has only seen one evaluation.
Remedy: evaluate and save less often, or time all of the epoch; finer rules say which.
Numbers: nothing changes in what is trained by saving less often; evaluating less often draws from
    the random stream less often.
Seen: examples/slow/save_every_improvement, examples/slow/evaluation_bound.
Source: hotloop's catalogue, 20 % from the five projects; one minute of starting is hotloop's own.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.core.finding import by_share
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.costs import (
    costing,
    evaluated_at_the_end,
    evaluation_seconds,
    hottest,
    site,
)
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save

__all__ = ["RULE"]

HIDDEN = 0.20  # share of the wall time
SMALL = 0.01  # share of the wall time below which a part is not named
ONCE = 60.0  # seconds; a shorter start or end is not reported
CLOCKS = {"time", "perf_counter", "monotonic", "process_time", "default_timer"}


def judge(case: Case) -> Finding | None:
    """Sum the time outside the steps."""
    seconds_of = _outside_steps(case)
    seconds = sum(seconds_of.values())
    ordered = sorted(seconds_of, key=lambda part: -seconds_of[part])
    share = case.part(seconds)
    shares = ", ".join(f"{part} {case.part(seconds_of[part]):.0%}" for part in ordered)
    places = [place for part in ordered for place in _places(case, part)]
    timer = next(filter(None, (_timer_before(case, place) for place in places)), None)
    hidden = f"; the script's own timer stops before it, in line {timer.line}" if timer else ""
    return costing(
        case,
        seconds,
        least=HIDDEN,
        severity=by_share(share, warn=HIDDEN, critical=2 * HIDDEN),
        claim=f"{share:.0%} of the wall time is outside the steps ({shares}){hidden}",
        places=[*places, *([timer] if timer else [])],
        evidence={part: f"{seconds_of[part]:.1f} s" for part in ordered},
        remedies=[
            Remedy(text="evaluate and save less often"),
            *([code_edit("time the whole epoch, so that this is seen")] if timer else []),
        ],
    )


def _outside_steps(case: Case) -> dict[str, float]:
    """Return the seconds outside the steps, by part."""
    sure = [span for span in case.evaluations if span.is_sure]
    at_the_end = evaluated_at_the_end(case, sure)
    once = {
        "starting": sum(map(case.row, ("start", "import", "data load"))),
        "compiling": case.row("compile"),
        "ending": case.row("after training") + at_the_end,
    }
    # A stopped run that evaluated only before its first step, or once, does not show how often it
    # evaluates. A span that may be part of training, such as an agent's rollouts, is not counted.
    moments = {span.step for span in sure} - {0}
    if case.stopped:
        sure = [span for span in sure if span.step and len(moments) > 1]
    recurring = {
        "evaluating": evaluation_seconds(case, sure) - at_the_end
        if case.evaluations
        else case.row("evaluate"),
        "saving": case.row("save"),
        "sleeping": case.row("idle"),
    }
    large = {part: seconds for part, seconds in recurring.items() if case.part(seconds) >= SMALL}
    if case.stopped:  # its shares do not refer to the start
        return large
    return large | {part: seconds for part, seconds in once.items() if seconds >= ONCE}


def _places(case: Case, part: str) -> list[SourceLocation]:
    spans: dict[str, Sequence[EvaluationSpan | Save]] = {
        "evaluating": case.evaluations,
        "saving": case.saves,
    }
    return hottest(spans.get(part, ()))[:1]


def _timer_before(case: Case, place: SourceLocation) -> SourceLocation | None:
    """Return where a loop last reads its timer, if `place` follows in the same loop; else None."""
    for loop in parse(case.sources).loops:
        if not site(loop.module, loop.node).holds(place.file, place.line):
            continue
        last = max(map(idioms.line, _readings(loop.node)), default=0)
        if 0 < last < (place.line or 0):
            return SourceLocation(file=loop.module.path, line=last)
    return None


def _readings(loop: ast.AST) -> Iterator[ast.AST]:
    """Yield each "clock() - start" of a loop."""
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            name = idioms.last_name(node.left)
            if name in CLOCKS and isinstance(node.left, ast.Call):
                yield node


RULE = Rule(
    title="Wall time outside the steps",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=-1,  # it sums up the findings of other rules
    yields_to=("H8", "H9", "H13"),
)
