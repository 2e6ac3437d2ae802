"""Whether a technique can pay on a script that the doctor has seen, and may be asked for there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.core.plan import Plan, Use
from hotloop.core.units import many
from hotloop.rules.support.data_wait import feeding, reading_seconds
from hotloop.techniques.base import HostKind, Stage
from hotloop.techniques.selection import check

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.techniques.base import Technique

__all__ = ["can_be_typed", "cannot_pay", "too_short"]

_IDLE: Final = 0.05  # share of the wall time; with less data wait, a loader is left alone
_COPIED: Final = 0.01  # share of the wall time; with less copying, prefetch to the GPU cannot pay
# Loader techniques that do not reduce data wait.
_PADDING: Final = ("dynamic-padding", "length-bucketing", "token-budget")
# Cold compile takes 11 s at least (PEERS.md, C1) and makes a step 1.45 times as fast at most
# (TECHNIQUES.md): the seconds of a run that compiling does not make shorter.
_EARNED: Final = 11 / (1 - 1 / 1.45)


def can_be_typed(id: str, case: Case) -> bool:
    """Whether `hotloop run --with` takes a technique for this script and may gain something.

    For the record of hotloop train: whether that takes it.
    """
    host = HostKind.ENGINE if case.by_hotloop else HostKind.SCRIPT
    try:
        plan = Plan(micro_batch=1, techniques=(Use.of(id),))
        check(plan, case.hardware, {id: "--with"}, host=host)
    except PlanError:
        return False
    return case.by_hotloop or cannot_pay(techniques.get(id), case) is None


def cannot_pay(technique: Technique, case: Case) -> str | None:
    """Return why a technique cannot pay on this script, or None."""
    if technique.id == "device-prefetch":
        copies = case.share("host to device")
        if case.on_gpu and copies < _COPIED:
            return f"copies to the GPU take {copies:.1%} of the time: nothing to gain"
    elif technique.stage is Stage.LOADER and technique.id not in _PADDING:
        if not case.training_loaders:
            return "no DataLoader feeds the training"
        waits = case.share("data wait")
        if waits < _IDLE and not any(loader.workers for loader in case.training_loaders):
            return f"the loop waits for data in {waits:.1%} of the time: nothing to gain"
        if technique.id == "sample-cache" and (reads := _reading(case)) < _IDLE:
            return f"reading samples takes {reads:.1%} of the time: nothing to gain"
    if technique.id == "threads":
        return _why_no_other_threads(case)
    if technique.id == "micro-batch":
        return _why_one_micro_batch(case)
    if technique.id == "compile":
        time, steps = case.step_time, case.total_steps
        if time is not None and steps is not None:
            return too_short(time.median, steps)
    return None


def _why_no_other_threads(case: Case) -> str | None:
    """Return why another number of threads cannot pay, or None."""
    if case.on_gpu:
        return "the GPU computes, not the CPU"
    threads, cores, busy = case.process.threads, case.hardware.cores, case.process.other_cores
    if threads is None or cores is None or busy is None:
        return None
    free = max(1, round(cores - busy))
    if threads != free:
        return None
    return f"it uses {many(threads, 'thread')}, as many as cores are free"


def _why_one_micro_batch(case: Case) -> str | None:
    """Return why no other micro batch can pay, or None."""
    if case.framework != "transformers":
        return "no Trainer of transformers divides its optimizer steps"
    if (case.steps.backwards or 1.0) < 2:
        return "it accumulates no gradients: an optimizer step is one micro batch"
    return None


def _reading(case: Case) -> float:
    """Return the share of the wall time in which samples are read; 1 if unknown."""
    loader = feeding(case)
    seconds = None if loader is None else reading_seconds(case, loader)
    return 1.0 if seconds is None else case.part(seconds)


def too_short(step: float, steps: int) -> str | None:
    """Return why `steps` steps of `step` seconds cannot pay back a compilation, or None."""
    if step * steps >= _EARNED:
        return None
    return f"all {steps:,} steps take {step * steps:.0f} s: compiling cannot be earned back"
