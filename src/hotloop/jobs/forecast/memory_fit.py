"""What a plan needs of the memory, forecast before anything runs, and the plan that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.config.memory_keys import deciding
from hotloop.core.env import ENV
from hotloop.core.progress import Note
from hotloop.core.units import bytes_
from hotloop.jobs.forecast import limits, memory_forecast
from hotloop.jobs.forecast.forecast_cache import remembered
from hotloop.jobs.forecast.per_rank_memory import of_rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use
    from hotloop.core.progress import Tell
    from hotloop.jobs.forecast.memory_forecast import Forecast
    from hotloop.session.job import Job

__all__ = ["fitted", "forecast_of", "packing_loses", "precision_of", "shapes"]

RECOMPUTING = "activation-checkpointing"
PACKED_COST = "9 to 62 %"  # a step of QLoRA against LoRA (TECHNIQUES, 2026-11)


def shapes(config: Any, job: Job) -> dict[str, object]:
    """Return what decides the shapes of a job: forecasts are kept by it."""
    return {"job": job.name, **deciding(config), "vocabulary": job.vocabulary}


def precision_of(plan: Plan, hardware: Hardware) -> str:
    """Return the dtype of the matrix products under what the hardware does not refuse."""
    for id, name in (("autocast-bf16", "bf16"), ("autocast-fp16", "fp16"), ("tf32", "tf32")):
        if plan.choice(id) is not None and techniques.get(id).blocked(hardware, plan) is None:
            return name
    return "fp32"


def _on_model(plan: Plan, hardware: Hardware) -> list[Use]:
    """Return the techniques that change what the model keeps for the backward pass."""
    found = ((techniques.get(use.id), use) for use in plan.techniques)
    return [use for t, use in found if t.on_model and t.blocked(hardware, plan) is None]


def _as_planned(job: Job, uses: Sequence[Use]) -> Job:
    """Return the job whose model is changed by the techniques."""

    def model() -> nn.Module:
        built = (job.skeleton or job.model)()
        for use in uses:
            change = techniques.get(use.id).on_model
            assert change is not None
            change(built, **dict(use.choice))
        return built

    return replace(job, model=model, skeleton=None)


def forecast_of(
    job: Job, plan: Plan, hardware: Hardware, settings: Mapping[str, object]
) -> Forecast:
    """Return the forecast of a plan, the one kept of an earlier run where nothing is different."""
    uses, precision = _on_model(plan, hardware), precision_of(plan, hardware)
    step: dict[str, Any] = {
        "micro_batch": plan.micro_batch,
        "precision": precision,
        "device": hardware.device,
        "accumulation": plan.accumulation,
    }
    one = job.train.batch(0, 0, 1) if job.widest is None else job.widest(1)
    sample = {k: [*v.shape, str(v.dtype)] for k, v in one.tensors.items()}
    key = {
        **step,
        "settings": settings,
        "sample": sample,
        "on_model": [str(use) for use in uses],
        "versions": dict(hardware.versions),
    }

    def make() -> Forecast:
        return memory_forecast.forecast(_as_planned(job, uses), **step)

    return remembered(ENV.cache / "forecasts", key, make)


def fitted(
    job: Job,
    plan: Plan,
    hardware: Hardware,
    settings: Mapping[str, object],
    tell: Tell,
    *,
    fit: bool,
) -> tuple[Plan, Forecast, str, str | None]:
    """Return the plan, its memory forecast, that in words, and what to do if it does not fit.

    `fit` lets the micro batch halve.
    """
    recomputes = (plan.choice(RECOMPUTING) or {"mode": "off"}).get("mode") != "off"
    while True:
        forecast = forecast_of(job, plan, hardware, settings)
        text, fits = limits.memory_sentence(of_rank(forecast, plan), hardware)
        if fits or not fit or plan.micro_batch % 2:
            break
        plan = replace(plan, micro_batch=plan.micro_batch // 2, accumulation=plan.accumulation * 2)
        tell(Note(text=f"{text}; the micro batch is halved to {plan.micro_batch}"))
    if plan.ranks > 1:
        text = f"on each rank {text}"
    too_much = None
    if not fits:
        too_much = limits.too_much(hardware)
        if not recomputes:
            peak = of_rank(forecast, plan).peak_bytes
            too_much += _with_less(job, plan, hardware, settings, peak)
    if recomputes:  # what is computed twice counts once in the utilisation (MFU)
        once = forecast_of(job, plan.plus(RECOMPUTING, mode="off"), hardware, settings)
        forecast = replace(forecast, flops=once.flops)
    return plan, forecast, text, too_much


def packing_loses(
    plain: Job,
    plan: Plan,
    hardware: Hardware,
    settings: Mapping[str, object],
    packed: Forecast,
) -> str | None:
    """Return why weights in 4 bits are a net loss, where the same job without them fits; or None.

    `plain` is that job, and `packed` the forecast with them.
    """
    if hardware.memory_bytes is None:
        return None
    whole = forecast_of(plain, plan, hardware, settings)
    if not limits.memory_sentence(whole, hardware)[1]:
        return None
    return (
        "QLoRA is a net loss here: with adapter.quantization=none the same adapters are forecast "
        f"to take {bytes_(whole.peak_bytes)} of {bytes_(hardware.memory_bytes)} (with nf4 "
        f"{bytes_(packed.peak_bytes)}), and packed weights are unpacked for every product, which "
        f"others measured as {PACKED_COST} slower"
    )


def _with_less(
    job: Job, plan: Plan, hardware: Hardware, settings: Mapping[str, object], peak_bytes: int
) -> str:
    """Return what activation checkpointing would make of a plan whose peak does not fit."""
    for mode in ("selective", "full"):
        less = forecast_of(job, plan.plus(RECOMPUTING, mode=mode), hardware, settings)
        less = of_rank(less, plan)
        _, fits = limits.memory_sentence(less, hardware)
        if fits:
            break
    if less.peak_bytes >= peak_bytes:  # no repeated blocks
        return ""
    how = "is forecast to fit" if fits else "is forecast to need less, and still too much"
    return f"; --with {RECOMPUTING}:mode={mode} {how}: {bytes_(less.peak_bytes)}"
