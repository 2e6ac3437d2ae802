"""The loop waits for its next batch.

Looks at: the wall time between asking for a batch and having it, of loaders and of the script's own
    functions that make batches.
Says so when: it is 5 % of the wall time or more; 10 % is a warning, 20 % critical. Before a
    run: the same of the forecast.
Stays silent when: worker processes or the GPU hide the reading, or batches are made by hand and
    one line of that is a finding of its own (H19).
Remedy: the rules below D1 name the cause; without one, worker processes are the first thing to try,
    and where there are some, a look at what the reading does without them.
Numbers: nothing by itself.
Seen: examples/slow/slow_getitem, examples/slow/overthreaded_cpu.
Source: TensorBoard's profiler plugin and TraceML for the row, hotloop for the thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit, option
from hotloop.rules.support import data_wait
from hotloop.rules.support.forecast import not_worth_it, of_row
from hotloop.rules.support.hot_lines import unexplained_line

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["RULE"]

FORECAST = 0.05  # of the time


def judge(case: Case) -> Finding | None:
    """Report the share of the wait for data."""
    seconds, loader = data_wait.waiting_seconds(case), data_wait.feeding(case)
    if case.part(seconds) < data_wait.MATTERS:
        return None
    if loader is None and unexplained_line(case) is not None:
        return None  # H19 names the line
    measured = next((c.factor for c in case.ceilings if c.name == "compute" and c.factor), None)
    places = [
        *data_wait.read_by_workers(case, loader),
        *data_wait.place_of(loader),
        *data_wait.lines(data_wait.stacks_of(case)),
        *data_wait.by_hand(case),
    ]
    part = f"{case.part(seconds):.0%} of the time"
    claim = f"making batches takes {part}" if loader is None else f"the loop waits for data {part}"
    return data_wait.costs(
        case,
        claim,
        seconds,
        places=list(dict.fromkeys(places)),
        evidence={
            "data wait": f"{seconds:.1f} s of {case.seconds:.1f} s",
            **({"with the same batches replayed": f"{measured:.2f}x"} if measured else {}),
        },
        remedies=_remedies(loader),
    )


def _remedies(loader: Loader | None) -> list[Remedy]:
    """Return the remedies that need no further evidence."""
    if loader is None:
        text = "make a batch with less work; where it does not depend on the model, a DataLoader "
        text += "with num_workers=1 makes it beside the loop"
        return [code_edit(text)]
    if loader.workers:
        text = "let the doctor look with num_workers=0 once: it then names the line that reads"
        return [Remedy(text=text)]
    return data_wait.read_ahead(loader) or [
        Remedy(text="num_workers=1 reads beside the loop")
        if loader.iterable
        else code_edit("cut each batch at once, not sample by sample")
    ]


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    time, data = planned.time, planned.data
    if time is None or data is None:
        return None
    if (share := time.share("data wait")) < FORECAST:
        return not_worth_it(time, "data wait", what="making batches faster")
    if data.in_memory:
        note = "batches are cut from memory by the loop: loader processes would not be faster"
        return of_row(
            time,
            "data wait",
            claim=f"making batches takes {share:.0%} of the time",
            evidence={"data": note},
            remedies=[Remedy(text="a larger training.batch_size or model makes longer steps")],
        )
    return of_row(
        time,
        "data wait",
        claim=f"steps wait for their data {share:.0%} of the time",
        remedies=[
            option(
                "--with loader-workers makes batches in other processes", technique="loader-workers"
            )
        ],
    )


RULE = Rule(
    title="The loop waits for data",
    judge=judge,
    needs=(Needs.STEPS,),
    before_run=_before_run,
    weight=0,
    experiment="waiting for data",
    by_host=True,
)
