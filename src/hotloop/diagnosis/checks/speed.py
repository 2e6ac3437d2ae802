"""Checks of where the wall time goes, as the rehearsal forecasts it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, CRITICAL, WARN, Finding, Remedy, by_share
from hotloop.core.units import duration, moment

if TYPE_CHECKING:
    from hotloop.diagnosis.checks.context import PlannedRun
    from hotloop.jobs.forecast.time_estimate import Estimate

__all__ = [
    "compile_loss",
    "cut_by_time",
    "data_wait",
    "long_risk",
    "long_saves",
    "long_start",
    "long_validations",
    "not_worth_it",
]

# Of the wall time: the thresholds of the doctor's rules D1, H8, H9, H13.
DATA_NOTE, SAVES, VALIDATIONS, START = 0.05, 0.05, 0.20, 0.10
LONG_START = 1200.0  # seconds, H13
SHORT_RUN = 60.0  # seconds: of less, the start is always a large part
AT_RISK = 1200.0  # seconds of work that a crash may cost before it is said
TINY_EPOCH = 2.0  # seconds, D26


def cut_by_time(case: PlannedRun) -> Finding | None:
    """Tell that training.max_time ends the run before its schedule."""
    limit, time = case.training.max_time, case.time
    if limit is None or time is None or limit >= time.seconds:
        return None
    return Finding(
        rule="R7 cut_by_time",
        claim=f"training.max_time={limit:g} s ends the run after about {limit / time.seconds:.0%} "
        f"of its {time.work.steps:,} steps: the learning rate never comes down",
        severity="warn",
        remedies=[
            Remedy(text=f"training.max_steps={int(time.work.steps * limit / time.seconds)}"),
            Remedy(text="go on later with --resume", effort="option"),
        ],
    )


def data_wait(case: PlannedRun) -> Finding | None:
    """Tell that steps wait for their data."""
    if case.time is None or (share := case.time.share("data wait")) < DATA_NOTE:
        return None
    if case.parts.job.train.in_memory:
        made = "batches are cut from memory by the loop: loader processes would not be faster"
        return _of_time(
            case.time,
            "data wait",
            rule="D1 data_wait",
            claim=f"making batches takes {share:.0%} of the time",
            evidence={"data": made},
            remedies=[Remedy(text="a larger training.batch_size or model makes longer steps")],
        )
    return _of_time(
        case.time,
        "data wait",
        rule="D1 data_wait",
        claim=f"steps wait for their data {share:.0%} of the time",
        remedies=[
            Remedy(
                text="--with loader-workers makes batches in other processes",
                effort="option",
                technique="loader-workers",
            )
        ],
    )


def long_validations(case: PlannedRun) -> Finding | None:
    """Tell that validating takes a large part of the run."""
    time = case.time
    if time is None or (share := time.share("evaluate")) < VALIDATIONS:
        return None
    work = time.work
    each = time.rows["evaluate"] / work.validations
    less = WARN / (1 - WARN) * (1 - share) / share  # of it, and WARN of the run is for validating
    fewer, steps = int(work.validation_batches * less), work.steps / work.validations / less
    remedies = [Remedy(text=f"training.eval_batches={fewer} makes that {WARN:.0%}")] * bool(fewer)
    less_often = f"makes that {WARN:.0%}" if steps < work.steps else "validates once, at the end"
    every = min(math.ceil(steps), work.steps)
    remedies.append(Remedy(text=f"training.eval_every_steps={every} {less_often}"))
    because = []
    if case.training.eval_every_epochs and time.seconds / case.epochs < TINY_EPOCH:
        because = ["D26 tiny_epoch: an epoch is over in less than 2 s, and each is validated"]
    return _of_time(
        time,
        "evaluate",
        rule="H9 eval_share",
        claim=f"{work.validations} validations of {duration(each)} take {share:.0%} of the run",
        because=because,
        remedies=remedies,
    )


def long_saves(case: PlannedRun) -> Finding | None:
    """Tell that saving takes a noticeable part of the run."""
    time = case.time
    if time is None or (share := time.share("save")) < SAVES or time.seconds < SHORT_RUN:
        return None
    return _of_time(
        time,
        "save",
        rule="H8 checkpoint",
        claim=f"{time.saves:.0f} checkpoints take {share:.0%} of the run",
        remedies=[
            Remedy(
                text="--with async-checkpoint writes them beside the training",
                effort="option",
                technique="async-checkpoint",
            ),
            Remedy(text="save less often: training.save_every_steps, training.save_every"),
        ],
    )


def long_risk(case: PlannedRun) -> Finding | None:
    """Tell how much work a crash can cost."""
    time, training = case.time, case.training
    if time is None:
        return None
    between = training.save_every
    if training.save_every_steps:
        between = min(between, training.save_every_steps * time.seconds / time.work.steps)
    if min(between, time.seconds) < AT_RISK:
        return None
    lost = "the whole run" if between >= time.seconds else duration(between)
    return Finding(
        rule="R9 saves_too_few",
        claim=f"a crash can cost {lost}: nothing is saved in between",
        severity="warn",
        remedies=[Remedy(text="training.save_every=600s, the default")],
    )


def long_start(case: PlannedRun) -> Finding | None:
    """Tell that a run is long in starting."""
    time = case.time
    if time is None or time.seconds < SHORT_RUN:
        return None
    share = time.share("start")
    if share < START and time.rows["start"] < LONG_START:
        return None
    return _of_time(
        time,
        "start",
        rule="H13 slow_init",
        claim=f"the first step comes after {duration(time.rows['start'])}, {share:.0%} of the run",
    )


def compile_loss(case: PlannedRun) -> Finding | None:
    """Tell what a compilation must save to pay back."""
    time, timing = case.time, case.timing
    if time is None or timing is None or (share := time.share("compile")) < WARN:
        return None
    seconds, needed = timing.compile, timing.compile / time.work.steps
    pays = f"pays back only if it makes a step, now {moment(timing.step.median)}, faster by "
    pays += moment(needed)
    if needed >= timing.step.median:
        pays = f"cannot pay back in {time.work.steps:,} steps of {moment(timing.step.median)}"
    return _of_time(
        time,
        "compile",
        rule="G14 compile_loss",
        claim=f"compiling takes {duration(seconds)}, {share:.0%} of the run: it {pays}",
        remedies=[
            Remedy(
                text="look at the same command with --without compile",
                effort="option",
                technique="compile",
            )
        ],
    )


def not_worth_it(time: Estimate) -> list[Finding]:
    """Return what need not be made faster, with the most that it could give."""
    rows = {
        "data wait": ("D1 data_wait", "making batches faster"),
        "save": ("H8 checkpoint", "saving faster"),
        "evaluate": ("H9 eval_share", "validating faster"),
        "start": ("H13 slow_init", "starting faster"),
    }
    return [
        Finding(
            rule=rule,
            claim=f"{what} saves at most {duration(time.rows[row])} ({time.share(row):.1%})",
            severity="note",
            share=time.share(row),
            ceiling=1 / (1 - time.share(row)),
        )
        for row, (rule, what) in rows.items()
        if 0 < time.share(row) < ABSTAIN
    ]


def _of_time(time: Estimate, row: str, **said: object) -> Finding:
    """Return a finding about one row of the wall time."""
    share = time.share(row)
    return Finding(
        severity=by_share(share, warn=WARN, critical=CRITICAL),
        share=share,
        saves=time.rows[row] / time.work.steps,
        ceiling=1 / (1 - share),
        **said,  # type: ignore[arg-type]
    )
