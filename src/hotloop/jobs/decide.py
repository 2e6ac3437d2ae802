"""Decides the plan of a run once, from the request, the hardware and the memory forecast.

Writes nothing. Runs training steps only if a technique must measure them to settle a choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.config.derive_plan import Choice, derive_plan, for_ranks
from hotloop.config.settings import DEFAULT
from hotloop.core.errors import PlanError
from hotloop.core.plan import Plan, Use
from hotloop.core.progress import Note
from hotloop.engine import apply_plan
from hotloop.engine.first_micro_batches import settled
from hotloop.jobs.forecast.memory_fit import (
    FOR_MEMORY,
    RECOMPUTING,
    RECORDING,
    Forecasts,
    fit_memory,
    fit_small,
    packing_loses,
    shapes,
    with_recordings,
)
from hotloop.jobs.forecast.per_rank_memory import suits
from hotloop.machine.threads import usable_threads
from hotloop.techniques.selection import TYPED, without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.progress import Notify
    from hotloop.jobs.forecast.memory_fit import MemoryFit
    from hotloop.jobs.forecast.memory_forecast import Forecast
    from hotloop.jobs.request import RunRequest
    from hotloop.session.accumulation_windows import AccumulationWindows
    from hotloop.session.job import Job
    from hotloop.session.ranks import ProcessGroup

__all__ = ["Decision", "Draft", "decide", "requested", "share_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A plan before it is fitted to the memory, with the origin of each technique."""

    plan: Plan
    origins: Mapping[str, str]  # technique id -> who asked for it
    choices: Sequence[Choice] = ()  # techniques with their reasons; empty for a plan file
    refused: Sequence[str] = ()  # one sentence for each setting that cannot be honoured

    def plus(self, use: Use, reason: str) -> Draft:
        """Return the draft with a technique that was chosen here."""
        choice = Choice(use=use, origin="auto", reason=reason)
        return replace(
            self,
            plan=self.plan.plus(use.id, **dict(use.choice)),
            origins={**self.origins, use.id: "auto"},
            choices=(*self.choices, choice),
        )

    def without(self, *ids: str) -> Draft:
        """Return the draft without the techniques `ids`."""
        plan = self.plan
        for id in ids:
            plan = plan.minus(id)
        choices = [choice for choice in self.choices if choice.use.id not in ids]
        origins = {id: origin for id, origin in self.origins.items() if id not in ids}
        return replace(self, plan=plan, origins=origins, choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The plan of a run, with its reasons and its memory forecast."""

    plan: Plan
    origins: Mapping[str, str]  # technique id -> who asked for it
    choices: Sequence[Choice]
    forecast: Forecast
    memory: str  # the forecast in a sentence
    too_much: str | None  # if the run does not fit: what to expect and what to do
    packing: str | None  # why 4-bit weights cost more than they save; None if they do not


def decide(
    request: RunRequest,
    job: Job,
    feed: AccumulationWindows,
    hardware: Hardware,
    *,
    steps: int,
    ranks: ProcessGroup,
    notify: Notify,
    kept: Plan | None = None,
    unpacked: Callable[[], tuple[Any, Job]] | None = None,
) -> Decision:
    """Return the plan for `steps` optimizer steps; all ranks use the plan of rank 0.

    `kept` is the plan of a resumed run, whose techniques are not derived again. If the request has
    4-bit weights, `unpacked` returns the configuration and the job without them. Raises PlanError
    for techniques that cannot work, DeviceError if the memory cannot be forecast, and ConfigError.
    """
    if kept is None:
        draft = requested(request, hardware, steps, ranks.world)
    else:
        plan = for_ranks(kept, ranks.world, request.config.training.batch_size)
        draft = Draft(plan=plan, origins={use.id: "the run's plan" for use in plan.techniques})
    for why in draft.refused:
        notify(Note(text=why, warning=True))
    apply_plan.check(draft.plan, hardware, draft.origins)
    forecasts = Forecasts(job, hardware, shapes(request.config, job))
    draft = share_out(draft, forecasts)
    fit, draft = _fitted(request, job, draft, forecasts, notify, is_fresh=kept is None)
    packing = None
    if unpacked is not None:
        config, plain = unpacked()
        plain_forecasts = Forecasts(plain, hardware, shapes(config, plain))
        packing = packing_loses(plain_forecasts, fit.plan, fit.forecast)
    return Decision(
        plan=_agreed(settled(job, fit.plan, hardware, feed, steps), ranks),
        origins=draft.origins,
        choices=draft.choices,
        forecast=fit.forecast,
        memory=fit.text,
        too_much=fit.too_much,
        packing=packing,
    )


def _fitted(
    request: RunRequest,
    job: Job,
    draft: Draft,
    forecasts: Forecasts,
    notify: Notify,
    *,
    is_fresh: bool,
) -> tuple[MemoryFit, Draft]:
    """Return the fit of a draft, and the draft as it is then; steps are recorded if there is room.

    A resumed run keeps its plan, and a batch size that was asked for its micro batches.
    """
    sized_here = request.origins["training.batch_size"].startswith(("auto", "preset"))
    may_halve = is_fresh and sized_here
    left_open = request.origins.get(request.recipe.checkpointing, DEFAULT) == DEFAULT
    recomputes = draft.plan.choice(RECOMPUTING) is not None
    recording = next(
        (c for c in draft.choices if (c.use.id, c.origin) == (RECORDING, "auto")), None
    )
    if recording is not None:  # it takes no room from the micro batch
        draft = draft.without(RECORDING)
    may = {
        "may_recompute": may_halve and left_open and not recomputes,
        "droppable": [id for id, origin in draft.origins.items() if origin == "auto"],
        "barred": request.removed,
    }
    shrinks = may_halve and _is_usual_adamw(draft, request)
    fit = _fitted_memory(job, draft.plan, forecasts, notify, may_halve, shrinks, may)
    before = draft
    for use in before.plan.techniques:
        if fit.plan.choice(use.id) is None:
            draft = draft.without(use.id)
    for use in fit.plan.techniques:
        if before.plan.choice(use.id) is None:
            draft = draft.plus(use, "without it the run does not fit")
    excluded = techniques.get(RECORDING).excludes & {use.id for use in fit.plan.techniques}
    if recording is not None and not excluded:
        replayed = with_recordings(forecasts, fit, recording.use)
        if replayed is not None:
            fit, draft = replayed, draft.plus(recording.use, recording.reason)
    return fit, draft


def _fitted_memory(
    job: Job,
    plan: Plan,
    forecasts: Forecasts,
    notify: Notify,
    may_halve: bool,
    may_shrink: bool,
    may: Mapping[str, Any],
) -> MemoryFit:
    """Return the fit of a plan, with a smaller optimizer only if it does not fit without."""
    notes: list[Any] = []
    fit = fit_memory(forecasts, plan, notes.append, may_halve=may_halve, **may)
    if fit.too_much and may_shrink:
        small = fit_small(forecasts, plan, notify, trains_low=job.trained is not None, **may)
        if small is not None:
            return small
    for note in notes:
        notify(note)
    return fit


def _is_usual_adamw(draft: Draft, request: RunRequest) -> bool:
    """Whether the run's optimizer is the default, and nobody typed another or its technique."""
    is_default = request.origins["training.optim"] == DEFAULT
    return is_default and draft.origins.get("fused-adamw") == "auto"


def requested(request: RunRequest, hardware: Hardware, steps: int, ranks: int) -> Draft:
    """Return the plan file's plan or a derived one, after applying --with and --without."""
    draft = (
        _derived(request, hardware, steps, ranks)
        if request.plan is None
        else _of_file(request, request.plan, ranks)
    )
    for use in request.added:
        clashes = techniques.get(use.id).excludes & {choice.use.id for choice in draft.choices}
        draft = draft.without(*(id for id in clashes if draft.origins[id] == "auto"), use.id)
        draft = replace(
            draft,
            plan=replace(draft.plan, techniques=(*draft.plan.techniques, use)),
            origins={**draft.origins, use.id: "--with"},
        )
    for id in request.removed:
        if draft.plan.choice(id) is None:
            if id in FOR_MEMORY:  # it might be added where the run does not fit
                continue
            raise PlanError(f"--without {id}: the plan does not use it")
        draft = draft.without(id)
    return draft


def _of_file(request: RunRequest, plan: Plan, ranks: int) -> Draft:
    """Return a file's plan for `ranks`; raise PlanError if its batch size is not the run's."""
    whole = plan.micro_batch * plan.accumulation * plan.ranks
    batch_size = request.config.training.batch_size
    if whole != batch_size and (plan.ranks == 1 or not plan.makes(batch_size)):
        raise PlanError(
            f"{request.plan_file} makes optimizer steps of {whole} samples, the configuration "
            f"of {batch_size}; set training.batch_size={whole} or use another plan"
        )
    origins = {use.id: f"plan {request.plan_file}" for use in plan.techniques}
    draft = Draft(plan=for_ranks(plan, ranks, batch_size), origins=origins)
    if request.config.training.optim == "adamw_8bit" and plan.choice("adamw-8bit") is None:
        draft = draft.without("fused-adamw")
        draft = replace(
            draft,
            plan=draft.plan.plus("adamw-8bit"),
            origins={**draft.origins, "adamw-8bit": request.origins["training.optim"]},
        )
    return draft


def _derived(request: RunRequest, hardware: Hardware, steps: int, ranks: int) -> Draft:
    """Return the plan derived for this hardware, plus the techniques that settings request.

    A derived technique gives way to a requested one that excludes it. Raises PlanError for a
    technique that was typed and cannot work.
    """
    config = request.config
    plan, derived = derive_plan(
        config.training,
        request.recipe.attends(config),
        hardware,
        origins=request.origins,
        steps=steps,
        threads=usable_threads(hardware.cores),
        ranks=ranks,
        freezes=request.recipe.freezes(config),
    )
    requested, refused = request.recipe.requested(config), list[str]()
    choices = [choice for choice in derived if choice.use.id not in requested]
    for id, wish in requested.items():
        use, origin = Use.of(id, **wish.choice), request.origins[wish.key]
        if not wish.is_wanted:
            continue
        why = techniques.get(id).blocked(hardware, plan)
        if why is not None and origin in TYPED:
            raise without_effect(use, why)
        if why is not None:
            refused.append(f"{wish.key} ({origin}): refused: {why}")
            continue
        others = techniques.get(id).excludes
        choices = [c for c in choices if c.use.id not in others or c.origin != "auto"]
        choices.append(Choice(use=use, origin=origin, reason="asked for"))
    choices.sort(key=lambda choice: choice.use.id)
    return Draft(
        plan=replace(plan, techniques=tuple(choice.use for choice in choices)),
        origins={choice.use.id: choice.origin for choice in choices},
        choices=choices,
        refused=refused,
    )


def share_out(draft: Draft, forecasts: Forecasts) -> Draft:
    """Return the draft with the sharding technique that suits the model.

    Replaces a derived `ddp` only; a requested technique stays.
    """
    plan, hardware = draft.plan, forecasts.hardware
    if plan.choice("ddp") is None or draft.origins["ddp"] != "auto":
        return draft
    id, reason = suits(forecasts.of(plan), plan, hardware)
    clashes = {other for other in techniques.get(id).excludes if draft.origins.get(other) == "auto"}
    away = {"ddp", *clashes} - {id}
    changed = plan.plus(id)
    for clash in away:
        changed = changed.minus(clash)
    if techniques.get(id).blocked(hardware, changed) is not None:  # by a requested technique
        return draft
    choices = [
        replace(choice, use=Use.of(id), reason=reason) if choice.use.id == "ddp" else choice
        for choice in draft.choices
        if choice.use.id == "ddp" or choice.use.id not in away
    ]
    return replace(draft, plan=changed, origins={**draft.origins, id: "auto"}, choices=choices)


def _agreed(plan: Plan, ranks: ProcessGroup) -> Plan:
    """Return the plan of rank 0, because measurements and forecasts may differ between ranks."""
    return Plan.from_json(ranks.exchange(plan.to_json())[0])
