"""Whether a plan can be asked for at all: known before anything runs, and without torch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.techniques import frozen_16bit, trained_16bit
from hotloop.techniques.base import HostKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use, Value
    from hotloop.session.job import Job
    from hotloop.techniques.base import Technique

__all__ = ["TYPED", "check", "check_words", "find", "model_in_16_bits", "without_effect"]

TYPED = frozenset({"command line", "--with"})  # origins whose requests must not fail silently
_ELSEWHERE = {
    HostKind.ENGINE: "is for scripts (hotloop run), not for hotloop train",
    HostKind.SCRIPT: "is for hotloop train: it changes the engine's loop, and a script has its own",
}


def check(
    plan: Plan,
    hardware: Hardware,
    origins: Mapping[str, str],
    *,
    known: Sequence[Technique] = techniques.ALL,
    host: HostKind = HostKind.ENGINE,
) -> None:
    """Raise PlanError for techniques that are unknown or contradictory, and for wrong choices.

    Also raises it for typed techniques that cannot work on this hardware.
    """
    check_words(plan, known=known, host=host)
    for use in plan.techniques:
        why = find(use.id, known).blocked(hardware, plan)
        if why is not None and origins.get(use.id) in TYPED:
            raise without_effect(use, why)


def check_words(
    plan: Plan, *, known: Sequence[Technique] = techniques.ALL, host: HostKind = HostKind.ENGINE
) -> None:
    """Raise PlanError for techniques and choices that are invalid on every machine."""
    ids = {use.id for use in plan.techniques}
    for use in plan.techniques:
        technique = find(use.id, known)
        if clash := sorted(technique.excludes & ids):
            raise PlanError(f"{use.id} and {', '.join(clash)} exclude each other; drop one")
        if host not in technique.hosts:
            raise PlanError(f"{use.id} {_ELSEWHERE[host]}")
        for name, value in use.choice:
            allowed = technique.choices.get(name)
            if allowed is None:
                choices = ", ".join(technique.choices) or "none"
                raise PlanError(f"{use.id} has no choice {name!r}; its choices: {choices}")
            if not _fits(value, allowed):
                listed = ", ".join(map(str, allowed))
                raise PlanError(f"{use.id}: {name}={value!r} is not one of {listed}")


def find(id: str, known: Sequence[Technique] = techniques.ALL) -> Technique:
    """Return the technique with this `id`; raise PlanError if it is unknown."""
    return next((one for one in known if one.id == id), None) or techniques.get(id)


def model_in_16_bits(
    job: Job, plan: Plan, hardware: Hardware, *, known: Sequence[Technique] = techniques.ALL
) -> Callable[[bool], nn.Module] | None:
    """Return the job's factory of a model with matrices in 16 bits, if the plan stores them so.

    Its argument tells whether to read weights. The model has what `Job.frozen` or `Job.trained`
    say.
    """
    for id, factory in ((frozen_16bit.ID, job.frozen), (trained_16bit.ID, job.trained)):
        is_used = plan.choice(id) is not None and find(id, known).blocked(hardware, plan) is None
        if is_used and factory is not None:
            return partial(factory, frozen_16bit.dtype_of(plan))
    return None


def without_effect(use: Use, why: str) -> PlanError:
    """Return the error for a requested technique that would have no effect."""
    return PlanError(f"{use} has no effect here: {why}. Leave it out, or ask for another one")


def _fits(value: Value, allowed: Sequence[Value]) -> bool:
    """Whether `value` is an allowed choice, or any count if the allowed choices are counts.

    Types must match too: True and 1.0 equal 1 in Python, but neither is a number of threads.
    """
    listed = any(type(value) is type(option) and value == option for option in allowed)
    counts = all(type(option) is int for option in allowed)
    return listed or (counts and type(value) is int and value >= 0)
