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

from hotloop.core.finding import Remedy, SourceLocation, by_share
from hotloop.rules.base import Needs, Rule
from hotloop.rules.support import idioms
from hotloop.rules.support.costs import costing, evaluation_seconds, site
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

HIDDEN = 0.20  # share of the wall time
SMALL = 0.01  # share of the wall time that is not worth naming
ONCE = 60.0  # seconds; less than a minute at the start or the end is nobody's worry
CLOCKS = {"time", "perf_counter", "monotonic", "process_time", "default_timer"}


def judge(case: Case) -> Finding | None:
    """Add up what is no step."""
    parts = _parts(case)
    seconds = sum(parts.values())
    ordered = sorted(parts, key=lambda part: -parts[part])
    share = case.part(seconds)
    said = ", ".join(f"{part} {case.part(parts[part]):.0%}" for part in ordered)
    places = [place for part in ordered for place in _places(case, part)]
    timer = next(filter(None, (_timer_before(case, place) for place in places)), None)
    hidden = f"; the script's own timer stops before it, in line {timer.line}" if timer else ""
    return costing(
        case,
        seconds,
        least=HIDDEN,
        severity=by_share(share, warn=HIDDEN, critical=2 * HIDDEN),
        rule=RULE.label,
        claim=f"{share:.0%} of the wall time is outside the steps ({said}){hidden}",
        places=[*places, *([timer] if timer else [])],
        evidence={part: f"{parts[part]:.1f} s" for part in ordered},
        remedies=[
            Remedy(text="evaluate and save less often", effort="configuration line"),
            Remedy(text="time the whole epoch, so that this is seen", effort="code edit"),
        ],
    )


def _parts(case: Case) -> dict[str, float]:
    """Return the seconds of each part that counts."""
    once = {
        "starting": sum(map(case.row, ("start", "import", "data load"))),
        "compiling": case.row("compile"),
        "ending": case.row("after training"),
    }
    # A stopped run that evaluated before its first step, or once, says nothing about how often it
    # will. What may be a part of training, as an agent's rollouts are, is no evaluation.
    sure = [each for each in case.evaluations if each.is_sure]
    moments = {each.step for each in sure} - {0}
    if case.stopped:
        sure = [each for each in sure if each.step and len(moments) > 1]
    often = {
        "evaluating": evaluation_seconds(case, sure) if case.evaluations else case.row("evaluate"),
        "saving": case.row("save"),
        "sleeping": case.row("idle"),
    }
    parts = {part: seconds for part, seconds in often.items() if case.part(seconds) >= SMALL}
    if case.stopped:  # the start is no part of what its shares refer to
        return parts
    return parts | {part: seconds for part, seconds in once.items() if seconds >= ONCE}


def _places(case: Case, part: str) -> list[SourceLocation]:
    seen: dict[str, Sequence[EvaluationSpan | Save]] = {
        "evaluating": case.evaluations,
        "saving": case.saves,
    }
    spent: dict[SourceLocation, float] = {}
    for each in seen.get(part, ()):
        if each.place:
            spent[each.place] = spent.get(each.place, 0.0) + each.seconds
    return sorted(spent, key=lambda place: -spent[place])[:1]


def _timer_before(case: Case, place: SourceLocation) -> SourceLocation | None:
    """Return where the loop's last timer is read, if `place` comes after it in the same loop."""
    for loop in parse(case.sources).loops:
        if not site(loop.module, loop.node).holds(place.file, place.line):
            continue
        last = max(map(idioms.line, _readings(loop.node)), default=0)
        if 0 < last < (place.line or 0):
            return SourceLocation(file=loop.module.path, line=last)
    return None


def _readings(loop: ast.AST) -> Iterator[ast.AST]:
    """Yield each "clock() - began" of a loop."""
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            name = idioms.last_name(node.left)
            if name in CLOCKS and isinstance(node.left, ast.Call):
                yield node


RULE = Rule(
    id="S3",
    name="hidden_wall",
    title="Wall time outside the steps",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=-1,  # it sums up what others name
    yields_to=("H8", "H9", "H13"),
)
