"""Checks of the configuration: settings that do something else than they seem to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.core.units import bytes_
from hotloop.jobs.forecast.limits import room_needed

if TYPE_CHECKING:
    from hotloop.diagnosis.checks.context import PlannedRun

__all__ = [
    "disk_room",
    "diverged",
    "headroom",
    "idle_patience",
    "learning_rate_off",
    "long_warm_up",
    "near_out_of_memory",
    "one_validation",
    "refused_techniques",
]

WARM_UP = 1 / 3  # of the steps; a tenth is usual
RATE_FACTOR = 10  # off the rule of thumb, either way
HEADROOM = 0.6  # of the memory, as the doctor's rule G18


def diverged(case: PlannedRun) -> Finding | None:
    """Tell that a step of the rehearsal, which is a step of the run, was not finite."""
    if case.problem is None:
        return None
    return Finding(
        rule="S12 not_finite",
        claim=f"the run ends in its first steps: {case.problem}",
        severity="critical",
        remedies=[
            Remedy(text="lower training.learning_rate, or lengthen training.warmup_steps"),
            Remedy(text="set training.gradient_clip (hotloop explain unstable-loss)"),
        ],
    )


def long_warm_up(case: PlannedRun) -> Finding | None:
    """Tell that the peak learning rate is met late or never."""
    steps = case.parts.steps
    warm_up = case.training.warmup(steps)
    if warm_up <= WARM_UP * steps:
        return None
    never = warm_up >= steps
    return Finding(
        rule="R6 long_warm_up",
        claim=f"a warm-up of {warm_up} of {steps:,} steps: the peak learning rate "
        + ("is never reached" if never else f"comes after {warm_up / steps:.0%} of the run"),
        severity="critical" if never else "warn",
        remedies=[Remedy(text=f"training.warmup_steps={steps // 10} is a tenth, as usual")],
    )


def learning_rate_off(case: PlannedRun) -> Finding | None:
    """Tell that the learning rate is far from what models of this size take.

    Rule of thumb for Adam: 0.003239 - 0.0001395 ln(parameters), Kaplan et al., "Scaling Laws for
    Neural Language Models", arXiv 2001.08361, 2020, appendix D.6.
    """
    usual = 0.003239 - 0.0001395 * math.log(case.parts.decision.forecast.parameters)
    factor = case.training.learning_rate / usual if usual > 0 else 1.0
    if 1 / RATE_FACTOR < factor < RATE_FACTOR:
        return None
    times = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
    return Finding(
        rule="R1 learning_rate_off",
        claim=f"training.learning_rate={case.training.learning_rate:g} is {times} what a model of "
        f"{case.parts.decision.forecast.parameters:,} parameters usually takes",
        severity="warn",
        evidence={"rule of thumb": f"{usual:.2g} (arXiv 2001.08361, appendix D.6)"},
        remedies=[Remedy(text=f"training.learning_rate={usual:.1g}, if the rate was not tuned")],
    )


def one_validation(case: PlannedRun) -> Finding | None:
    """Tell that the only validation comes when nothing can be done about it."""
    training = case.training
    if case.time is None or case.time.work.validations > 1:
        return None
    set_to = next(
        (
            f"training.{key}={value}"
            for key in ("eval_every_steps", "eval_every_epochs")
            if (value := getattr(training, key)) is not None
        ),
        "no interval is set",
    )
    return Finding(
        rule="R8 one_validation",
        claim=f"the run validates once, after its last step ({set_to}, and the run has "
        f"{case.parts.steps:,} steps): overfitting is seen too late",
        severity="warn",
        remedies=[Remedy(text=f"training.eval_every_steps={max(1, case.parts.steps // 10)}")],
    )


def idle_patience(case: PlannedRun) -> Finding | None:
    """Tell that early stopping cannot happen."""
    patience = case.training.patience
    if patience is None or case.time is None or case.time.work.validations > patience:
        return None
    return Finding(
        rule="C4 requested_not_effective",
        claim=f"training.patience={patience} is not in effect: the run validates "
        f"{case.time.work.validations} times",
        severity="warn",
        remedies=[Remedy(text="validate more often: training.eval_every_steps")],
    )


def refused_techniques(case: PlannedRun) -> Finding | None:
    """Tell which techniques of the plan are not in effect."""
    refused = {row.technique: row.how for row in case.effects if row.word == "refused"}
    if not refused:
        return None
    return Finding(
        rule="C4 requested_not_effective",
        claim=f"asked for and refused here: {', '.join(refused)}",
        severity="note",
        evidence=refused,
    )


def near_out_of_memory(case: PlannedRun) -> Finding | None:
    """Tell that the memory is short, by the forecast or by an out of memory that was met."""
    if case.halved is None and case.parts.decision.too_much is None:
        return None
    have, peak = case.parts.hardware.memory_bytes, case.parts.decision.forecast.peak_bytes
    critical = case.halved is not None or (have is not None and peak > have)
    half = case.parts.plan.accumulation * 2
    return Finding(
        rule="G16 near_oom",
        claim=case.halved or f"memory: {case.parts.decision.memory}",
        severity="critical" if critical else "warn",
        evidence={"advice": case.parts.decision.too_much} if case.parts.decision.too_much else {},
        remedies=[
            Remedy(
                text=f"training.accumulation={half} halves the micro batch, not the batch "
                "(hotloop explain out-of-memory)"
            ),
            Remedy(
                text="--with activation-checkpointing:mode=selective computes again what it frees",
                effort="option",
                technique="activation-checkpointing",
            ),
        ],
    )


def headroom(case: PlannedRun) -> Finding | None:
    """Tell that micro batches are smaller than the card needs them to be."""
    have, peak = case.parts.hardware.memory_bytes, case.parts.decision.forecast.peak_bytes
    accumulation = case.parts.plan.accumulation
    if case.parts.hardware.device != "cuda" or accumulation == 1 or not have:
        return None
    if peak / have >= HEADROOM / 2:  # half the micro batches need up to twice the memory
        return None
    return Finding(
        rule="G18 headroom",
        claim=f"{accumulation} micro batches make a step, and one takes {peak / have:.0%} of the "
        "memory: fewer, larger ones keep the card busier",
        severity="note",
        evidence={"memory": case.parts.decision.memory},
        remedies=[Remedy(text=f"training.accumulation={accumulation // 2}, the batch stays")],
    )


def disk_room(case: PlannedRun) -> Finding | None:
    """Tell that checkpoints cannot be kept: hotloop train would refuse to start."""
    forecast, keep = case.parts.decision.forecast, case.training.keep
    size = forecast.parameters_bytes + forecast.optimizer_bytes
    needed = room_needed(size, keep)
    why = case.unwritable
    if case.free_bytes < needed:
        why = (
            f"{keep + 2} checkpoints of {bytes_(size)} need {bytes_(needed)}, and "
            f"{bytes_(case.free_bytes)} are free"
        )
    if why is None:
        return None
    return Finding(
        rule="R3 disk_room",
        claim=f"{why}: hotloop train will refuse",
        severity="critical",
        remedies=[
            Remedy(text="free some space, or name another folder with --out", effort="option"),
            Remedy(text="lower training.keep"),
        ],
    )
