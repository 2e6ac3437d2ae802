"""Forecasts the memory that a plan needs before anything runs, and finds a plan that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.config.common import deciding
from hotloop.core.env import ENV
from hotloop.core.hardware import HEAD_ROOM
from hotloop.core.plan import Use
from hotloop.core.progress import Note
from hotloop.core.sharding_ids import SHARING
from hotloop.core.units import bytes_
from hotloop.jobs.forecast import limits, memory_forecast
from hotloop.jobs.forecast.forecast_cache import remembered
from hotloop.jobs.forecast.per_rank_memory import of_rank
from hotloop.techniques.selection import model_in_16_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.core.progress import Notify
    from hotloop.jobs.forecast.memory_forecast import Forecast
    from hotloop.session.job import Job

__all__ = [
    "Forecasts",
    "MemoryFit",
    "fit_memory",
    "fit_small",
    "has_flash",
    "packing_loses",
    "precision_of",
    "shapes",
    "with_recordings",
]

RECOMPUTING, RECORDING = "activation-checkpointing", "cuda-graphs"
OFFLOADING = "activation-offload"
# Ways to a smaller optimizer and smaller weights, for a model that does not fit otherwise.
_SMALLER = (
    (Use.of("adamw-8bit"),),
    (Use.of("adamw-8bit"), Use.of("trained-16bit")),
    (Use.of("adamw-8bit", state="host"), Use.of("trained-16bit")),
)
# Bytes of host memory for a number of 8-bit averages: 2, and torch's allocator of pinned memory
# rounds what has more than 256 MiB up to a power of two (pytorch issue 150517).
_PINNED = 3
FOR_MEMORY = (RECOMPUTING, OFFLOADING, "adamw-8bit", "trained-16bit")
PACKED_COST = "9 to 62 %"  # step time of QLoRA over LoRA (TECHNIQUES, 2026-11)


def shapes(config: Any, job: Job) -> dict[str, object]:
    """Return the settings that determine the tensor shapes of a job, as a key for its forecasts."""
    return {"job": job.name, **deciding(config), "vocabulary": job.vocabulary}


def precision_of(plan: Plan, hardware: Hardware) -> str:
    """Return the precision of the matrix products under the techniques that the hardware allows.

    One of fp32, tf32, bf16 and fp16.
    """
    for id, name in (("autocast-bf16", "bf16"), ("autocast-fp16", "fp16"), ("tf32", "tf32")):
        if plan.choice(id) is not None and techniques.get(id).blocked(hardware, plan) is None:
            return name
    return "fp32"


class Forecasts:
    """The memory forecasts of one job on one device, each computed once."""

    def __init__(self, job: Job, hardware: Hardware, settings: Mapping[str, object]) -> None:
        self.hardware = hardware
        self._job, self._settings = job, settings  # `settings`: see `shapes`
        self._known: dict[tuple[object, ...], Forecast] = {}

    def of(self, plan: Plan) -> Forecast:
        """Return the forecast of a plan, from memory or the cache on disk if possible."""
        uses, precision = _on_model(plan, self.hardware), precision_of(plan, self.hardware)
        low = self._low(plan)
        replays = _replays(plan, self.hardware)
        key = (plan.micro_batch, plan.accumulation, precision, low, replays, *map(str, uses))
        if key not in self._known:
            self._known[key] = self._remembered(plan, uses, precision)
        return self._known[key]

    def _remembered(self, plan: Plan, uses: Sequence[Use], precision: str) -> Forecast:
        job, low = self._job, self._low(plan)
        step: dict[str, Any] = {
            "micro_batch": plan.micro_batch,
            "precision": precision,
            "device": self.hardware.device,
            "flash": has_flash(self.hardware, precision),
            "accumulation": plan.accumulation,
            "replayed": _replays(plan, self.hardware),
        }
        one = job.train.batch(0, 0, 1) if job.widest is None else job.widest(1)
        key = {
            **step,
            "settings": self._settings,
            "sample": {k: [*v.shape, str(v.dtype)] for k, v in one.tensors.items()},
            "on_model": [str(use) for use in uses],
            "in_16_bits": low,
            "versions": dict(self.hardware.versions),
        }
        planned = _as_planned(job, uses, model_in_16_bits(job, plan, self.hardware))
        make = partial(memory_forecast.forecast, planned, **step)
        return remembered(ENV.cache / "forecasts", key, make)

    def _low(self, plan: Plan) -> str | None:
        """Return which matrices of the model are in 16 bits, and in which, in words."""
        factory = model_in_16_bits(self._job, plan, self.hardware)
        if factory is None:
            return None
        which = "frozen" if self._job.frozen is not None else "trained"
        return f"{which}: {precision_of(plan, self.hardware)}"


def has_flash(hardware: Hardware, precision: str) -> bool:
    """Whether FlashAttention runs in a precision on a GPU; unknown ones are taken as new."""
    return precision in ("bf16", "fp16") and (hardware.capability or (8, 0)) >= (8, 0)


def _replays(plan: Plan, hardware: Hardware) -> bool:
    is_used = plan.choice(RECORDING) is not None
    return is_used and techniques.get(RECORDING).blocked(hardware, plan) is None


def _on_model(plan: Plan, hardware: Hardware) -> list[Use]:
    """Return the plan's techniques that change what the model or the optimizer keeps."""
    used = ((techniques.get(use.id), use) for use in plan.techniques)
    counted = ((t, use) for t, use in used if t.on_model or t.state_bytes)
    return [use for t, use in counted if t.blocked(hardware, plan) is None]


def _as_planned(job: Job, uses: Sequence[Use], low: Callable[[bool], nn.Module] | None) -> Job:
    """Return the job with a model, and an optimizer's state, to which `uses` are applied.

    `low` builds it with matrices in 16 bits, if there is one.
    """
    used = [(techniques.get(use.id), dict(use.choice)) for use in uses]

    def model() -> nn.Module:
        built = (job.skeleton or job.model)() if low is None else low(False)
        for technique, choice in used:
            if technique.on_model is not None:
                technique.on_model(built, **choice)
        return built

    replaced = [partial(t.state_bytes, **choice) for t, choice in used if t.state_bytes]
    state_bytes = replaced[-1] if replaced else job.state_bytes
    return replace(job, model=model, skeleton=None, state_bytes=state_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """A plan and the memory it needs."""

    plan: Plan
    forecast: Forecast
    text: str  # the forecast in a sentence
    too_much: str | None  # if the plan does not fit: what to expect and what to do


def fit_memory(
    forecasts: Forecasts,
    plan: Plan,
    notify: Notify,
    *,
    may_halve: bool,
    may_recompute: bool = False,
    droppable: Collection[str] = (),
    barred: Collection[str] = (),
) -> MemoryFit:
    """Return the plan and its forecast; with `may_halve`, halve the micro batch until it fits.

    With `may_recompute`, a plan that does not fit even then recomputes activations, and moves them
    to the host if its techniques that exclude that are `droppable`. Techniques that are `barred`
    are not taken.
    """
    hardware, asked = forecasts.hardware, plan
    while not _sentence(forecasts, plan)[1] and may_halve and plan.micro_batch % 2 == 0:
        text = _sentence(forecasts, plan)[0]
        plan = replace(plan, micro_batch=plan.micro_batch // 2, accumulation=plan.accumulation * 2)
        notify(Note(text=f"{text}; the micro batch is halved to {plan.micro_batch}"))
    if may_recompute and not _sentence(forecasts, plan)[1]:
        most = asked.micro_batch
        allowed = {"droppable": droppable, "barred": barred}
        plan = _recomputing(forecasts, plan, notify, most=most, **allowed)
    recomputes = (plan.choice(RECOMPUTING) or {"mode": "off"}).get("mode") != "off"
    forecast = forecasts.of(plan)
    of_this_rank = of_rank(forecast, plan)
    text, fits = _sentence(forecasts, plan)
    if plan.ranks > 1:
        text = f"on each rank {text}"
    too_much = None
    if not fits:
        too_much = limits.too_much(hardware)
        if not recomputes:
            too_much += _with_less(forecasts, plan, of_this_rank.peak_bytes)
    if recomputes:  # recomputation does not count in the utilisation (MFU)
        once = forecasts.of(plan.plus(RECOMPUTING, mode="off"))
        forecast = replace(forecast, flops=once.flops)
    return MemoryFit(plan=plan, forecast=forecast, text=text, too_much=too_much)


def fit_small(
    forecasts: Forecasts,
    plan: Plan,
    notify: Notify,
    *,
    may_recompute: bool,
    trains_low: bool,
    droppable: Collection[str] = (),
    barred: Collection[str] = (),
) -> MemoryFit | None:
    """Return a fit whose optimizer, then weights too, are smaller.

    None if nothing fits. What changes the training least comes first. `trains_low` tells whether
    the trained matrices can be in 16 bits.
    """
    whole = forecasts.of(plan)
    pinned = _PINNED * whole.trained
    if plan.choice("async-checkpoint") is not None:  # copies weights and averages before it writes
        pinned += 2 * whole.trained + whole.parameters_bytes
    for uses in _SMALLER:
        smaller = plan.minus("fused-adamw")
        for use in uses:
            smaller = smaller.plus(use.id, **dict(use.choice))
        works = all(_works(use, smaller, forecasts.hardware) for use in uses)
        is_low = any(use.id == "trained-16bit" for use in uses)
        on_host = any(use.choice for use in uses)
        if any(use.id in barred for use in uses) or (is_low and not trains_low):
            continue
        if not works or (on_host and not _host_has(forecasts, pinned)):
            continue
        notes: list[Any] = []
        fit = fit_memory(
            forecasts,
            smaller,
            notes.append,
            may_halve=True,
            may_recompute=may_recompute,
            droppable=droppable,
            barred=barred,
        )
        if fit.too_much is None:
            text, names = _sentence(forecasts, plan)[0], " and ".join(map(str, uses))
            notify(Note(text=f"{text}; it fits with {names}, which change the training"))
            for note in notes:
                notify(note)
            return fit
    return None


def _host_has(forecasts: Forecasts, needed: int) -> bool:
    """Whether the host has room for so many bytes; unknown memory suffices."""
    have = forecasts.hardware.host_memory_bytes
    return have is None or needed <= HEAD_ROOM * have


def _works(use: Use, plan: Plan, hardware: Hardware) -> bool:
    technique = techniques.get(use.id)
    clashes = technique.excludes & {other.id for other in plan.techniques}
    return not clashes and technique.blocked(hardware, plan) is None


def with_recordings(forecasts: Forecasts, fit: MemoryFit, use: Use) -> MemoryFit | None:
    """Return the fit with steps that are replayed, or None if there is no room for them."""
    plan = fit.plan.plus(use.id, **dict(use.choice))
    text, fits = _sentence(forecasts, plan)
    forecast = replace(forecasts.of(plan), flops=fit.forecast.flops)
    return replace(fit, plan=plan, forecast=forecast, text=text) if fits else None


def _sentence(forecasts: Forecasts, plan: Plan) -> tuple[str, bool]:
    """Return the forecast of a plan in words, and whether it fits."""
    return limits.memory_sentence(of_rank(forecasts.of(plan), plan), forecasts.hardware)


def _recomputing(
    forecasts: Forecasts,
    plan: Plan,
    notify: Notify,
    *,
    most: int,
    droppable: Collection[str],
    barred: Collection[str],
) -> Plan:
    """Return the plan with the mildest recomputation that fits, or the plan itself.

    The last resort is that what is kept even then waits in host memory, in place of techniques that
    are `droppable`. Where there is room, its micro batch is doubled again, up to `most` samples.
    """
    text, _ = _sentence(forecasts, plan)
    for mode, moves in (("selective", False), ("full", False), ("full", True)):
        less, dropped = plan.plus(RECOMPUTING, mode=mode), ""
        if RECOMPUTING in barred or (moves and OFFLOADING in barred):
            continue
        if moves:
            kept, away = less, techniques.get(OFFLOADING).excludes & {*droppable} - {*SHARING}
            for id in sorted(use.id for use in plan.techniques if use.id in away):
                less, dropped = less.minus(id), f"{dropped}, without {id}"
            less = less.plus(OFFLOADING)
            if not _works(Use.of(OFFLOADING), less, forecasts.hardware):
                continue
            moved = forecasts.of(kept).peak_bytes - forecasts.of(less).peak_bytes
            if not _host_has(forecasts, 2 * moved):  # each tensor takes a power of two
                continue
        if not _sentence(forecasts, less)[1]:
            continue
        while less.accumulation % 2 == 0 and 2 * less.micro_batch <= most:
            micro_batch, accumulation = 2 * less.micro_batch, less.accumulation // 2
            larger = replace(less, micro_batch=micro_batch, accumulation=accumulation)
            if not _sentence(forecasts, larger)[1]:
                break
            less = larger
        beside = f", and the inputs of blocks wait in host memory ({OFFLOADING})" if moves else ""
        beside += dropped
        told = f"{text}; activations are recomputed ({RECOMPUTING}:mode={mode}){beside}"
        notify(Note(text=told))
        return less
    return plan


def _with_less(forecasts: Forecasts, plan: Plan, peak_bytes: int) -> str:
    """Return a hint on the peak under activation checkpointing, for a plan that does not fit."""
    for mode in ("selective", "full"):
        less = of_rank(forecasts.of(plan.plus(RECOMPUTING, mode=mode)), plan)
        _, fits = limits.memory_sentence(less, forecasts.hardware)
        if fits:
            break
    if less.peak_bytes >= peak_bytes:  # no repeated blocks
        return ""
    how = "is forecast to fit" if fits else "is forecast to need less, and still too much"
    return f"; --with {RECOMPUTING}:mode={mode} {how}: {bytes_(less.peak_bytes)}"


def packing_loses(plain: Forecasts, plan: Plan, packed: Forecast) -> str | None:
    """Return why 4-bit weights are a net loss if the same job fits without them, or None.

    `plain` forecasts the job without 4-bit weights; `packed` is the forecast with them.
    """
    have = plain.hardware.memory_bytes
    if have is None:
        return None
    whole = plain.of(plan)
    if not limits.memory_sentence(whole, plain.hardware)[1]:
        return None
    return (
        "QLoRA is a net loss here: with adapter.quantization=none the same adapters are forecast "
        f"to take {bytes_(whole.peak_bytes)} of {bytes_(have)} (with nf4 "
        f"{bytes_(packed.peak_bytes)}), and packed weights are unpacked for every product, which "
        f"others measured as {PACKED_COST} slower"
    )
