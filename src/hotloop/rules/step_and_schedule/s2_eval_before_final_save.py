"""Hours of training are first saved after an evaluation that may fail.

Looks at: the order of what follows the training loop, and how long the run trains.
Says so when: nothing in the loop saves, an evaluation stands between the loop and the first save,
    and the run trains for half an hour or more. A note: the failure is only possible.
Stays silent when: something is saved before, or the run is short enough to be done again.
Remedy: save first, then evaluate.
Numbers: bitwise the same.
Seen: golden case only; it takes a run of half an hour.
Source: hotloop, from the five projects (an evaluation ran out of memory after six hours of
    training); half an hour is hotloop's own threshold.
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import TrainingLoop, parse

__all__ = ["RULE"]

AT_STAKE = 1800.0  # seconds of training


def judge(case: Case) -> Finding | None:
    """Look for an evaluation between the end of the training and its first save."""
    seconds = _planned_seconds(case)
    if seconds < AT_STAKE or any(save.step < case.steps.count for save in case.saves):
        return None
    loops = parse(case.sources).loops
    if any(idioms.saves(loop.nodes()) for loop in loops):
        return None
    for loop in loops:
        call = _risk(loop)
        if call is not None:
            return Finding(
                claim=(
                    f"{seconds / 3600:.1f} h of training are first saved after "
                    f"'{ast.unparse(call.func)}', which may fail"
                ),
                severity="warn",
                places=[loop.module.place(call)],
                evidence={"training": f"{seconds:.0f} s, as planned"},
                remedies=[
                    code_edit("save before the evaluation"),
                    code_edit("save every half hour in the loop"),
                ],
            )
    return None


def _planned_seconds(case: Case) -> float:
    """Return the duration of the training in seconds, as observed or as planned."""
    time = case.step_time
    planned = (case.total_steps or 0) * (time.median if time else 0.0)
    return max(planned, sum(case.steps.wall), case.seconds)


def _risk(loop: TrainingLoop) -> ast.Call | None:
    """Return the evaluation between the loop and the first save after it, or None."""
    following = list(idioms.unnested(idioms.following(loop.module.tree, loop.node)))
    first = min(map(idioms.line, idioms.saves(following)), default=0)
    risky = [call for call in idioms.evaluations(following) if idioms.line(call) < first]
    return next((call for call in risky if call.args or call.keywords), None)


RULE = Rule(
    title="An evaluation before the first save",
    judge=judge,
    needs=(Needs.CODE, Needs.STEPS),
    weight=3,
    numerics="bitwise",
    kind="correctness",
    known="read",
)
