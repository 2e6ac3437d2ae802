"""Saving takes a noticeable part of the time.

Looks at: the time of each save.
Says so when: saving takes 5 % of the wall time; or 2 %, where one save takes as long as ten steps
    and so stands out of the curve of step times. Before a run: 5 % of the forecast of a run of a
    minute or more.
Stays silent when: it is less, or a single save was seen: nothing says how often it comes.
Remedy: save less often, leave out what can be made again, or write in the background.
Numbers: bitwise the same; async-checkpoint writes a copy taken between two steps.
Seen: examples/slow/save_every_improvement.
Source: threshold 5 % as TraceML's; one of the five projects lost 76 % of its wall time so.
"""

from statistics import median

from hotloop.core.finding import ABSTAIN
from hotloop.core.units import bytes_, moment
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit, option
from hotloop.rules.support.costs import costing
from hotloop.rules.support.forecast import not_worth_it, of_row

__all__ = ["RULE"]

LEAST = 0.05
SPIKE = 10  # steps that one save takes
SHORT_RUN = 60.0  # seconds: saving is always a large part of shorter planned runs


def judge(case: Case) -> Finding | None:
    """Sum the saves and look for spikes."""
    if len(case.saves) == 1:
        return None
    seconds = sum(save.seconds for save in case.saves)
    typical, step = median(save.seconds for save in case.saves), case.step_time
    spiky = step is not None and typical >= SPIKE * step.median
    slowest = max(case.saves, key=lambda save: save.seconds)
    sizes = [save.bytes for save in case.saves if save.bytes]
    return costing(
        case,
        seconds,
        least=ABSTAIN if spiky else LEAST,
        claim=f"{len(case.saves)} saves of {moment(typical)} take {case.part(seconds):.0%} of the "
        "time",
        places=[slowest.place] if slowest.place else [],
        evidence={"each": bytes_(median(sizes))} if sizes else {},
        remedies=[
            code_edit("save every N steps or epochs, and once at the end"),
            option(
                "write beside the training, from a copy of the weights",
                technique="async-checkpoint",
            ),
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    time = planned.time
    if time is None:
        return None
    if (share := time.share("save")) < LEAST or time.seconds < SHORT_RUN:
        return not_worth_it(time, "save", what="saving faster")
    return of_row(
        time,
        "save",
        claim=f"{time.saves:.0f} checkpoints take {share:.0%} of the run",
        remedies=[
            option(
                "--with async-checkpoint writes them beside the training",
                technique="async-checkpoint",
            ),
            Remedy(text="save less often: training.save_every_steps, training.save_every"),
        ],
    )


RULE = Rule(
    title="Saving takes a noticeable part of the time",
    judge=judge,
    needs=(Needs.STEPS, Needs.SAVES),
    before_run=_before_run,
    weight=2,
    numerics="bitwise",
    experiment="saving",
)
