"""The micro batches of a step are so small that joining some of them saves time.

Looks at: steps of several backward passes, each after one call of one model by one line. An
    experiment makes that call with the rows of 2, 4, 8, … micro batches, and with one.
Says so when: joined calls make a step 1.03 times as fast or more.
Stays silent when: no experiment was made, or joined calls take as long as single ones.
Remedy: larger micro batches and as many fewer of them, so that the rows of an update stay the same.
Numbers: rounding. With batch normalisation the run changes: its statistics are of more rows.
Seen: examples/planted/split_batch.py.
Source: hotloop.
"""

from __future__ import annotations

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import calls, parse

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report the experiment that joined the micro batches."""
    made = next((one for one in case.experiments if one.name == "joined batches"), None)
    if made is None or made.count is None or made.outcome != "gain":
        return None
    size = case.steps.samples
    rows = "" if size is None else f" of {size:g} row{'s' * (size != 1)}"
    number = round(case.steps.backwards or 1)
    return Finding(
        claim=f"a step makes {number} passes over micro batches{rows} one after another",
        severity="warn",
        places=_places(case),
        remedies=[code_edit(f"micro batches with {made.count} times as many rows")],
    )


def _places(case: Case) -> list[SourceLocation]:
    """Return the loops over micro batches, by their backward passes."""
    return [
        SourceLocation(file=loop.module.path, line=idioms.line(loop.node))
        for loop in parse(case.sources).inner_loops
        if any(calls(loop.nodes(), "backward"))
    ]


RULE = Rule(
    title="Micro batches are smaller than they need be",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="joined batches",
    only_measured=True,
)
