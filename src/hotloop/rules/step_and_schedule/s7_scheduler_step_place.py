"""The learning-rate schedule is counted in one unit and stepped in another.

Looks at: each scheduler's length, its calls against the steps of its own optimizer, observed and
    planned, and the learning rate as it was while that optimizer was in use.
Says so when: the schedule is 1.5 times longer or shorter than the run will step it, with the reason
    where the figures give it (micro batches, batches or epochs counted); it is never stepped, or
    steps an optimizer that is not in use; the rate is 0 for the last quarter of the observed steps;
    the schedule is stepped before the optimizer.
Stays silent when: lengths agree, the schedule repeats by design, or the run was stopped and it is
    not known how many of its steps are this schedule's: the length is unknown, the schedule is one
    of several stages or folds, or is stepped in a part of the run alone.
Remedy: count the schedule in optimizer steps and step it where the optimizer steps.
Numbers: the run changes: this is a fault in the training itself.
Seen: examples/slow/scheduler_accumulation.
Source: hotloop, from the five projects; "How to adjust learning rate",
    https://docs.pytorch.org/docs/stable/optim.html (2026-11).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, SourceLocation, code_edit
from hotloop.rules.support.syntax import calls, dotted, parse

if TYPE_CHECKING:
    from hotloop.core.case.objects import Optimizer, Scheduler

__all__ = ["RULE"]

OFF = 1.5  # factor too long or too short; smaller deviations are rounding
SAME = 0.15  # relative difference of counts that are meant to be equal: warm-up, ragged batches
FAR = 5.0  # factor that only a confusion of epochs and batches reaches
ENOUGH = 20  # sampled learning rates
TAIL = 0.25  # of the observed steps
ZERO = 1e-6  # of the highest learning rate
# Schedules that end. LinearLR and ConstantLR are usually warm-ups; cyclic ones never end.
ENDING = ("CosineAnnealingLR", "OneCycleLR", "PolynomialLR", "LambdaLR")
CONTAINERS = ("SequentialLR", "ChainedScheduler")  # they step their schedules themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFault:
    """A fault of a schedule."""

    claim: str
    severity: Severity
    places: tuple[SourceLocation | None, ...]
    remedy: str = "count the schedule in optimizer steps and step it after each of them"


def judge(case: Case) -> Finding | None:
    """Compare each schedule with its optimizer and with the run, then look at the rate."""
    has_container = any(schedule.name in CONTAINERS for schedule in case.schedulers)
    for schedule in () if has_container else case.schedulers:
        fault = _unused(case, schedule) or _length(case, schedule) or _order(case, schedule)
        if fault is not None:
            return _finding(case, fault, schedule)
    fault = _ended(case)
    return _finding(case, fault) if fault is not None else None


def _finding(case: Case, fault: ScheduleFault, schedule: Scheduler | None = None) -> Finding:
    rates = [rate for optimizer in case.optimizers for _, rate in optimizer.rates]
    of_planned = f" of {case.planned_steps}" if case.planned_steps and case.stopped else ""
    evidence = {"optimizer steps": f"{case.steps.count}{of_planned}"}
    if rates:
        evidence["learning rate"] = f"{rates[0]:.3g} at first, {rates[-1]:.3g} at last"
    if schedule is not None:
        evidence[schedule.name] = f"stepped {schedule.steps} times, built for {schedule.total}"
    return Finding(
        claim=fault.claim,
        severity=fault.severity,
        places=[place for place in fault.places if place],
        evidence=evidence,
        remedies=[code_edit(fault.remedy)],
    )


def _unused(case: Case, schedule: Scheduler) -> ScheduleFault | None:
    """Return the fault of a schedule that is never stepped, or whose optimizer is not."""
    # In a stopped run a call may still follow; calls of a deleted schedule were not counted.
    surely = case.stopped is None and not schedule.gone
    surely = surely or (_has_turned(case) and not _stepped(case))
    if not schedule.steps and schedule.optimizer_steps and surely:
        beside = any(other.steps for other in _of_same(case, schedule))
        still = "" if beside else ": the learning rate does not move"
        return ScheduleFault(
            claim=f"{schedule.name} is built and never stepped{still}",
            severity="note" if beside else "warn",
            places=(schedule.place,),
            remedy="scheduler.step() after each optimizer step, or each epoch if it counts epochs",
        )
    idle = any(not optimizer.steps for optimizer in case.optimizers)
    if schedule.steps and not schedule.optimizer_steps and idle:
        return ScheduleFault(
            claim=f"{schedule.name} moves the learning rate of an optimizer that never steps",
            severity="warn",
            places=(schedule.place, *_stepped(case)),
            remedy="build the schedule for the optimizer that is in use",
        )
    return None


def _has_turned(case: Case) -> bool:
    """Whether enough epochs ended for a call at the end of an epoch."""
    return case.stopped is None or case.epochs > 2


def _of_same(case: Case, schedule: Scheduler) -> list[Scheduler]:
    """Return the other schedules of the same optimizer."""
    return [
        other
        for other in case.schedulers
        if other is not schedule and other.optimizer == schedule.optimizer
    ]


def _own(case: Case, schedule: Scheduler) -> Optimizer | None:
    """Return the optimizer whose learning rate it sets; None: unknown."""
    return next((o for o in case.optimizers if o.key == schedule.optimizer), None)


def _planned(case: Case, schedule: Scheduler) -> float | None:
    """Return the planned steps of its optimizer in the whole run; None: unknown."""
    own = _own(case, schedule)
    steps = own.steps if own else case.steps.count
    if case.stopped is None:
        return steps
    used = sum(optimizer.steps > 0 for optimizer in case.optimizers)
    in_turn = used > max(1, case.steps.optimizers)  # one after another: stages, folds
    apart = any(not _same(other.steps, schedule.steps) for other in _of_same(case, schedule))
    if not case.planned_steps or not case.steps.count or in_turn or apart or schedule.in_loop:
        return None
    return case.planned_steps * steps / case.steps.count


def _length(case: Case, schedule: Scheduler) -> ScheduleFault | None:
    """Return the fault of a schedule that ends long before the run, or long after it."""
    total, updates, stepped = (
        schedule.total,
        schedule.optimizer_steps,
        schedule.steps - schedule.begun,
    )
    planned = _planned(case, schedule)
    if not (planned and total and updates and stepped > 0) or schedule.name not in ENDING:
        return None
    # Bounds of the calls in the whole run: a finished epoch may not have been counted yet.
    exact = case.stopped is None and not schedule.gone
    least, most = (schedule.begun + n * planned / updates for n in (stepped, stepped + (not exact)))
    calls = least if total < least else most
    if total / OFF < calls < total * OFF or least <= total <= most:
        return None
    unit, severity = _unit(case, schedule, calls, planned)
    if calls > total:
        then = "rises again" if schedule.name == "CosineAnnealingLR" else "stays at its end"
        text = f"ends after {total / calls:.0%} of the run, then the learning rate {then}"
        places = (*_stepped(case), schedule.place)
        if unit is None and _stays_up(case, schedule):
            return None
    else:
        text = f"is at {calls / total:.0%} of its length when the run ends"
        places = (schedule.place, *_stepped(case))
    why = f": {unit}" if unit else ""
    fault = ScheduleFault(claim=f"{schedule.name} {text}{why}", severity=severity, places=places)
    if calls < total and (handed := _handed(case)):
        remedy = 'return [optimizer], [{"scheduler": scheduler, "interval": "step"}]'
        fault = replace(fault, places=(*handed, *places), remedy=remedy)
    return fault


def _handed(case: Case) -> list[SourceLocation]:
    """Return where schedulers are passed to Lightning, which steps them once per epoch."""
    return [
        module.place(node)
        for module in (parse(case.sources).modules if case.framework == "lightning" else ())
        for function in module.nodes
        if isinstance(function, ast.FunctionDef) and function.name == "configure_optimizers"
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and "interval" not in ast.unparse(function)
    ]


def _unit(
    case: Case, schedule: Scheduler, calls: float, planned: float
) -> tuple[str | None, Severity]:
    """Return the wrong unit of the schedule, if the figures show it, and the severity."""
    total, micro = schedule.total or 0, case.steps.backwards or 1.0
    stepped = schedule.steps - schedule.begun
    each_step = _same(stepped, schedule.optimizer_steps)
    if micro >= OFF and each_step and _same(total, calls * micro):
        return f"it counts micro batches, but {micro:g} of them make one step", "critical"
    each_micro = _same(stepped, schedule.optimizer_steps * micro)
    if micro >= OFF and each_micro and _same(total, planned):
        return f"it is stepped at every micro batch, {micro:g} times a step", "critical"
    if calls < total / FAR and any(_same(total, planned * n) for n in (1.0, micro)):
        return "it counts steps, but is stepped once an epoch", "critical"
    if each_step and calls > total * FAR:
        return "it counts epochs, but is stepped at every batch", "critical"
    # A schedule that is too long may be an early stop, so it is only noted.
    return None, "warn" if calls > total else "note"


def _stepped(case: Case) -> tuple[SourceLocation, ...]:
    """Return where training loops step schedules, recognised by name."""
    return tuple(
        dict.fromkeys(
            loop.module.place(call)
            for loop in parse(case.sources).loops
            for call in calls(loop.node, "step")
            if "sched" in dotted(call.func).lower()
        )
    )


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * other


def _stays_up(case: Case, schedule: Scheduler) -> bool:
    """Whether the learning rate at the end of the run is not 0, so that the tail is intended."""
    own = _own(case, schedule)
    rates = own.rates if own else max((o.rates for o in case.optimizers), key=len, default=())
    return bool(rates) and case.stopped is None and rates[-1][1] > 0.01 * max(r for _, r in rates)


def _order(case: Case, schedule: Scheduler) -> ScheduleFault | None:
    """Return the fault that PyTorch warns of; with a scaler, the warning is a false alarm."""
    warned = any("before `optimizer.step()`" in text for text in case.process.warnings)
    if not warned or case.scalers:
        return None
    return ScheduleFault(
        claim="the schedule is stepped before the optimizer, so its first value is left out",
        severity="note",
        places=_stepped(case),
        remedy="optimizer.step() first, then scheduler.step()",
    )


def _ended(case: Case) -> ScheduleFault | None:
    """Return the fault of a learning rate that has been 0 for a long time."""
    for optimizer in case.optimizers:
        rates = [rate for _, rate in optimizer.rates]
        peak = max(rates, default=0.0)
        tail = rates[int(len(rates) * (1 - TAIL)) :]
        if len(rates) >= ENOUGH and peak > 0 and max(tail) <= ZERO * peak:
            last = max(step for step, rate in optimizer.rates if rate > ZERO * peak)
            return ScheduleFault(
                claim=f"the learning rate is 0 from step {last + 1} on: nothing is learnt there",
                severity="critical",
                places=(optimizer.place,),
                remedy="let the schedule end where the run ends",
            )
    return None


RULE = Rule(
    title="A schedule counted in the wrong unit",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    weight=3,
    numerics="training",
    kind="correctness",
    known="proved",
)
