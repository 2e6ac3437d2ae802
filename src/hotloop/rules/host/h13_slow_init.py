"""The first step comes late.

Looks at: the wall time before the first step: Python and the script's start, imports, reading data,
    compiling.
Says so when: it takes 10 % of a run of more than a minute, or 20 minutes. Below a minute it is a
    note, unless the script's own work is 10 % of the run. Before a run: the same of the forecast.
Stays silent when: the run is short (the start is a large part of any short run), or it was stopped
    and nobody knows how long it would have been.
Remedy: cache prepared data, import less, keep compiled kernels.
Numbers: bitwise the same.
Seen: examples/slow/pad_to_max.
Source: 20 minutes as SageMaker's LongInitialization rule; the share is hotloop's.
"""

from hotloop.core.units import duration
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Rule, code_edit
from hotloop.rules.support.costs import costing, hot_path, whole_run
from hotloop.rules.support.forecast import not_worth_it, of_row

__all__ = ["RULE"]

LEAST, LONG = 0.10, 1200.0  # of the run; seconds
WORRIES = 60.0  # seconds before the first step; a shorter start is a note unless the script's own
SHORT = 60.0  # seconds: the start is always a large part of shorter runs
REMEDY = {
    "start": "do once what the script does before its loop, and keep the result in a file",
    "import": "import only what is used: python -X importtime shows what is slow",
    "data load": "keep the prepared data in a file, memory-mapped, and open that",
    "compile": "compile fewer graphs, or keep them: TORCHINDUCTOR_CACHE_DIR outside of /tmp",
}
ROWS = tuple(REMEDY)
OWN = ("start", "data load")  # what the script does; libraries import, the compiler compiles


def judge(case: Case) -> Finding | None:
    """Compare the time before the first step with the whole run."""
    seconds = sum(map(case.row, ROWS))
    total = whole_run(case)
    if seconds < LONG and (total is None or total < SHORT):
        return None
    of = total or case.seconds
    is_own = sum(map(case.row, OWN)) >= LEAST * of
    worst = max(ROWS, key=case.row)
    return costing(
        case,
        seconds,
        least=0.0 if seconds >= LONG else LEAST,
        of=of,
        **({} if is_own or seconds >= WORRIES else {"severity": "note"}),
        claim=f"the first step comes after {duration(seconds)}, {seconds / of:.0%} of the run, "
        f"most of it {worst}",
        places=hot_path(case, [stack for stack in case.stacks if stack.row == worst]),
        evidence={row: duration(case.row(row)) for row in ROWS if case.row(row)},
        remedies=[code_edit(REMEDY[worst])],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    time = planned.time
    if time is None:
        return None
    share, seconds = time.share("start"), time.rows["start"]
    if time.seconds < SHORT or (share < LEAST and seconds < LONG):
        return not_worth_it(time, "start", what="starting faster")
    return of_row(
        time,
        "start",
        claim=f"the first step comes after {duration(seconds)}, {share:.0%} of the run",
    )


RULE = Rule(
    title="The run is long in starting",
    judge=judge,
    needs=(Needs.STEPS,),
    before_run=_before_run,
    numerics="bitwise",
)
