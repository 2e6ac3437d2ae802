"""From a job and a plan to a session: gates, techniques by stage, and what is really in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.session import Session
from hotloop.techniques.base import Host, Stage
from hotloop.training.effect import Effect, Word
from hotloop.training.step import to_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use
    from hotloop.session import Batch, Job
    from hotloop.techniques.base import Technique

__all__ = ["TYPED", "after_warm_up", "check", "prepare", "warm_up"]

TYPED = frozenset({"command line", "--with"})  # origins whose requests must not fail silently


def check(plan: Plan, hardware: Hardware, origins: Mapping[str, str]) -> None:
    """Raise PlanError for techniques that are unknown or contradictory, and for wrong choices.

    Also for what was typed and cannot work on this hardware: before anything is written.
    """
    ids = {use.id for use in plan.techniques}
    for use in plan.techniques:
        technique = techniques.get(use.id)
        if clash := sorted(technique.excludes & ids):
            raise PlanError(f"{use.id} and {', '.join(clash)} exclude each other; drop one")
        if Host.ENGINE not in technique.hosts:
            raise PlanError(f"{use.id} is for scripts (hotloop run), not for hotloop train")
        for name, value in use.choice:
            allowed = technique.choices.get(name)
            if allowed is None:
                known = ", ".join(technique.choices) or "none"
                raise PlanError(f"{use.id} has no choice {name!r}; its choices: {known}")
            number = all(isinstance(option, int) for option in allowed)
            if value not in allowed and not (number and isinstance(value, int) and value >= 0):
                listed = ", ".join(map(str, allowed))
                raise PlanError(f"{use.id}: {name}={value!r} is not one of {listed}")
        why = technique.blocked(hardware, plan)
        if why is not None and origins.get(use.id) in TYPED:
            raise _without_effect(use, why)


def _without_effect(use: Use, why: str) -> PlanError:
    return PlanError(f"{use} has no effect here: {why}. Leave it out, or ask for another one")


def prepare(
    job: Job, plan: Plan, hardware: Hardware, origins: Mapping[str, str]
) -> tuple[Session, list[Effect]]:
    """Build the session and apply every technique but those of the COMPILE stage's first call.

    `origins` maps a technique id to who asked for it. A technique that is refused or finds
    nothing to change is an error when it was typed, else a row of the table.
    """
    check(plan, hardware, origins)
    device = torch.device(hardware.device)
    torch.manual_seed(job.seed)
    order = [t for t in techniques.ALL if plan.choice(t.id) is not None]
    order.sort(key=lambda technique: technique.stage)
    session = _start(job, plan, hardware, device)
    effects: list[Effect] = []
    for technique in order:
        if technique.stage >= Stage.OPTIMIZER and session.optimizer is None:
            session.optimizer = job.optimizer(session.model)
        use = next(use for use in plan.techniques if use.id == technique.id)
        effects.append(_apply(session, technique, use, plan, origins.get(use.id, "plan")))
    if session.optimizer is None:
        session.optimizer = job.optimizer(session.model)
    return session, effects


def _start(job: Job, plan: Plan, hardware: Hardware, device: torch.device) -> Session:
    model = job.model().to(device)
    return Session(
        job=job,
        hardware=hardware,
        device=device,
        model=model,
        micro_batch=plan.micro_batch,
        accumulation=plan.accumulation,
        forward=lambda tensors: job.loss(model, tensors),
    )


def _apply(session: Session, technique: Technique, use: Use, plan: Plan, origin: str) -> Effect:
    why = technique.blocked(session.hardware, plan)
    word: Word = "refused"
    if why is None:
        changed = technique.apply(session, **dict(use.choice))
        why, word = (technique.nothing, "not needed here") if not changed else (None, "in effect")
    if why is None:
        how = technique.read_back(session)
        if how is None:
            why, word = "it was applied but cannot be read back", "refused"
        else:
            return Effect(technique=str(use), origin=origin, word=word, how=how)
    if origin in TYPED and not (technique.stage is Stage.COMPILE and word == "refused"):
        raise _without_effect(use, why)
    return Effect(technique=str(use), origin=origin, word=word, how=why)


def warm_up(session: Session, batch: Batch) -> str | None:
    """Make the first, compiling call on a batch; return why compilation failed, or None.

    Nothing of it stays but the compiled code: gradients are dropped, the random state is forked.
    A failure backs out to eager, because compilation is lazy and fails only here.
    """
    devices = [session.device] if session.device.type == "cuda" else []
    tensors = to_device(batch, session.device)
    session.model.train()
    try:
        with torch.random.fork_rng(devices):
            for _ in range(2):  # CUDA graphs record at the second call
                session.forward(tensors).backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        if not type(error).__module__.startswith("torch._") or "compile" not in session.undo:
            raise  # not the compiler's: the model itself fails
        session.undo.pop("compile")()
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    finally:
        session.model.zero_grad(set_to_none=True)
    return None


def after_warm_up(effects: list[Effect], session: Session, failure: str | None) -> list[Effect]:
    """Return the table with the compile row as it is after the first call."""
    technique = techniques.get("compile")
    return [
        Effect(
            technique=row.technique,
            origin=row.origin,
            word="refused" if failure else "in effect",
            how=f"fell back to eager: {failure}" if failure else technique.read_back(session) or "",
        )
        if row.technique.startswith("compile") and row.word == "in effect"
        else row
        for row in effects
    ]
