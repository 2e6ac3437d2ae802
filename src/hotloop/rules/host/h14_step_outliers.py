"""Some steps take several times as long as the others.

Looks at: the time of each step and of its rows; evaluation and saving are left out of both.
Says so when: the slowest hundredth take more than twice the median, at least ten steps do, and what
    they take too long adds up to 2 % of the time in one row.
Stays silent when: the rows share the excess, as with a busy machine (H12), or waiting for data has
    it (D5, D19). A note while other programs keep half a core busy: they may hold a row up. The
    first twentieth of the steps is warming up and left out.
Remedy: look at the row and the line that are named.
Numbers: none by looking.
Seen: examples/planted/steps_now_and_then.py.
Source: SageMaker's StepOutlier (ten outliers) and gpuprof (p99 above twice the median).
"""

from dataclasses import replace
from statistics import median

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import CROWDED, costing, hot_path

__all__ = ["RULE"]

FACTOR = 2  # times the median
FEWEST = 10  # slow steps
FEWEST_STEPS = 100
OF_THE_EXCESS = 0.70  # share of the excess time that one row must hold


def judge(case: Case) -> Finding | None:
    """Find the row that the slow steps have in common."""
    warm = len(case.steps.wall) // 20
    times = case.steps.wall[warm:]
    if len(times) < FEWEST_STEPS:
        return None
    typical = median(times)
    slow = [number for number, time in enumerate(times) if time > FACTOR * typical]
    if sorted(times)[int(0.99 * (len(times) - 1))] <= FACTOR * typical or len(slow) < FEWEST:
        return None
    excess = sum(times[number] - typical for number in slow)
    over = {
        row: sum(seconds[warm:][number] for number in slow) - len(slow) * median(seconds[warm:])
        for row, seconds in case.steps.rows.items()
        if len(seconds) == len(case.steps.wall)
    }
    row = max(over, key=over.__getitem__, default=None)
    if row is None or row == "data wait" or over[row] < OF_THE_EXCESS * excess:
        return None
    is_crowded = not case.on_gpu and (case.process.other_cores or 0.0) >= CROWDED
    who = "the other processes do" if row == "exchange" else f"{row} does"
    finding = costing(
        case,
        over[row] * case.steps.count / len(case.steps.wall),
        claim=f"{len(slow)} of {len(times):,} steps take more than {FACTOR} times the median of "
        f"{moment(typical)}; the time goes into {row}",
        places=hot_path(case, [stack for stack in case.stacks if stack.row == row]),
        evidence={"steps": ", ".join(case_numbers(case, warm, slow))},
        remedies=[code_edit(f"look at what {who} in these steps only")],
    )
    return replace(finding, severity="note") if finding and is_crowded else finding


def case_numbers(case: Case, warm: int, slow: list[int]) -> list[str]:
    """Return the numbers of the first slow steps."""
    numbers = case.steps.numbers[warm:]
    return [str(numbers[index]) for index in slow[:5] if index < len(numbers)]


RULE = Rule(
    title="Some steps take far longer than the others",
    judge=judge,
    needs=(Needs.STEPS,),
    yields_to=("H18",),
    numerics="bitwise",
)
