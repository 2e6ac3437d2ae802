"""Work that the script does after each update keeps the next step waiting.

Looks at: the wall time between the update and the next batch that has no row of its own, and what
    is logged; the call stacks there.
Says so when: both rows together take 5 % of the wall time; a note, if no line below the training
    loop takes half of it, if no model was called (then the next forward pass is part of it), or if
    the recorded operators of the line are needed: a loss, a weight or the script reads their
    results.
Stays silent when: they take less, or an experiment showed that the line's work is faster in another
    form.
Remedy: do it every N steps, or not in the loop. H2, H5, H7, H15 and H17 say more where they know
    the cause.
Numbers: bitwise the same.
Seen: examples/blind/cartpole_replay, examples/slow/after_step_work.
Source: hotloop; the threshold is that of H7.
"""

from dataclasses import replace

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.costs import costing, hot_path
from hotloop.rules.support.hot_lines import has_faster_form

__all__ = ["RULE"]

COMPUTE = ("forward", "backward", "optimizer")
ROWS = ("after step", "log")
NEEDED = ("useful", "inefficient", "moved")
LEAST = 0.05


def judge(case: Case) -> Finding | None:
    """Name the line that takes most of these rows."""
    seconds, share = sum(map(case.row, ROWS)), case.share(*ROWS)
    stacks = [stack for stack in case.stacks if stack.row in ROWS]
    per_step = case.per_step(seconds)
    places = hot_path(case, stacks)
    if places and has_faster_form(case, places[0], share):
        return None
    finding = costing(
        case,
        seconds,
        least=LEAST,
        claim=f"work after the update takes {share:.0%} of the time"
        + (f", {moment(per_step)} a step" if per_step else ""),
        places=places,
        evidence={row: f"{case.row(row):.2f} s" for row in ROWS},
        remedies=[
            code_edit("do it every 50 steps: if step % 50 == 0"),
            code_edit("leave out of the loop what nobody reads"),
        ],
    )
    is_part = places and (_trains(case, places[0]) or _is_needed(case, places[0]))
    if finding is not None and (not case.models or is_part):
        return replace(finding, severity="note")
    return finding


def _is_needed(case: Case, place: SourceLocation) -> bool:
    """Whether the ledger has operators of a line whose results are of use."""
    rows = case.ledger.rows if case.ledger is not None else ()
    return any(line.place == place for row in rows if row.name in NEEDED for line in row.lines)


def _trains(case: Case, place: SourceLocation) -> bool:
    """Whether the training loop runs below a line."""
    return any(
        stack.row in COMPUTE
        and any((frame.file, frame.line) == (place.file, place.line) for frame in stack.frames)
        for stack in case.stacks
    )


RULE = Rule(
    title="Work between the update and the next batch",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=0,
    numerics="bitwise",
    experiment="line",
    by_host=True,
)
