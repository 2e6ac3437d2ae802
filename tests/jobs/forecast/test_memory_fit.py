"""The memory forecast of a plan, on a CPU of any size."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hotloop.core.hardware import HEAD_ROOM, Hardware
from hotloop.core.plan import Plan
from hotloop.core.progress import Note
from hotloop.data.sampling.context_windows import Windows
from hotloop.jobs.forecast.memory_fit import Forecasts, MemoryFit, fit_memory, fit_small
from hotloop.jobs.forecast.memory_forecast import Forecast
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.job import Job

PLAN = Plan(micro_batch=16)
RECOMPUTING = "activation-checkpointing"


def job() -> Job:
    ids = np.arange(2000, dtype=np.uint16) % 7
    windows = Windows(ids, tokens_fingerprint="", context=64, seed=0, shuffle=True)
    return Job(
        name="forecasting",
        model=lambda: Gpt(vocabulary=7, layers=4, heads=2, width=32, context=64),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=0,
    )


def forecast(plan: Plan, memory: int | None = None, of: Job | None = None) -> tuple[Forecast, str]:
    """Return the forecast and what to do when it does not fit; `memory` is in bytes."""
    hardware = Hardware(device="cpu", name="a CPU", memory_bytes=memory)
    settings = {"job": "tests/jobs/forecast/test_memory_fit.py", "blocks": of is None}
    forecasts = Forecasts(of or job(), hardware, settings)
    fit = fit_memory(forecasts, plan, lambda message: None, may_halve=False)
    return fit.forecast, fit.too_much or ""


@pytest.mark.parametrize("mode", ["selective", "full"])
def test_recomputing_is_forecast_to_save_memory_and_its_flops_count_once(mode: str) -> None:
    plain, less = forecast(PLAN)[0], forecast(PLAN.plus(RECOMPUTING, mode=mode))[0]
    assert less.activations_bytes < 0.8 * plain.activations_bytes
    assert less.flops == plain.flops


def test_attention_that_is_written_out_is_forecast_to_keep_its_scores() -> None:
    auto, naive = (forecast(PLAN.plus("sdpa", backend=b))[0] for b in ("auto", "naive"))
    assert naive.activations_bytes > 1.05 * auto.activations_bytes


def test_a_plan_that_does_not_fit_hears_of_the_mildest_mode_that_would() -> None:
    peak = {
        mode: forecast(PLAN.plus(RECOMPUTING, mode=mode))[0].peak_bytes
        for mode in ("off", "selective", "full")
    }
    assert peak["full"] < peak["selective"] < peak["off"]
    for mode, how in (("selective", "is forecast to fit"), ("full", "is forecast to fit")):
        just = int(peak[mode] / HEAD_ROOM) + 1
        assert f"--with {RECOMPUTING}:mode={mode} {how}" in forecast(PLAN, just)[1]
    _, advice = forecast(PLAN, peak["full"] // 2)
    assert f"{RECOMPUTING}:mode=full is forecast to need less, and still too much" in advice
    assert forecast(PLAN, 2 * peak["off"])[1] == ""


def fitted(memory: int, *, may_recompute: bool = True) -> tuple[MemoryFit, list[str]]:
    hardware = Hardware(device="cpu", name="a CPU", memory_bytes=memory)
    settings = {"job": "tests/jobs/forecast/test_memory_fit.py", "blocks": True}
    said: list[str] = []

    def notify(message: object) -> None:
        assert isinstance(message, Note)
        said.append(message.text)

    forecasts = Forecasts(job(), hardware, settings)
    fit = fit_memory(forecasts, PLAN, notify, may_halve=True, may_recompute=may_recompute)
    return fit, said


def test_activations_are_recomputed_where_halving_is_not_enough() -> None:
    """The mildest mode that fits, and then as large a micro batch as fits with it."""
    one = Plan(micro_batch=1, accumulation=16)
    peak = {
        (mode, plan.micro_batch): forecast(plan.plus(RECOMPUTING, mode=mode))[0].peak_bytes
        for mode in ("off", "selective", "full")
        for plan in (one, Plan(micro_batch=2, accumulation=8))
    }
    fit, said = fitted(int(peak["off", 1] / HEAD_ROOM) + 1)
    assert fit.plan.choice(RECOMPUTING) is None
    assert (fit.plan.micro_batch, len(said)) == (1, 4)
    for mode in ("selective", "full"):
        fit, said = fitted(int(peak[mode, 1] / HEAD_ROOM) + 1)
        assert fit.plan.choice(RECOMPUTING) == {"mode": mode}
        assert fit.too_much is None
        assert f"activations are recomputed ({RECOMPUTING}:mode={mode})" in said[-1]
        assert fit.plan.micro_batch * fit.plan.accumulation == PLAN.micro_batch
    less = fitted(int(peak["selective", 1] / HEAD_ROOM) + 1, may_recompute=False)[0]
    assert less.plan.choice(RECOMPUTING) is None
    assert less.too_much


def test_what_never_fits_is_not_recomputed_in_vain() -> None:
    fit, _ = fitted(1 << 10)
    assert fit.plan.choice(RECOMPUTING) is None
    assert fit.too_much


def test_what_would_not_help_is_not_recommended() -> None:
    _, advice = forecast(PLAN.plus(RECOMPUTING, mode="full"), memory=1000)
    assert "out of memory" in advice
    assert RECOMPUTING not in advice
    one_block = replace(
        job(), model=lambda: Gpt(vocabulary=7, layers=1, heads=2, width=32, context=64)
    )
    assert RECOMPUTING not in forecast(PLAN, memory=1000, of=one_block)[1]


def shrunk(
    memory: int,
    *,
    host: int | None = None,
    trains_low: bool = True,
    barred: tuple[str, ...] = (),
) -> Any:
    """Return what makes a wide model fit a simulated GPU, and what was said of it."""
    hardware = Hardware(
        device="cuda",
        name="a GPU",
        capability=(8, 9),
        memory_bytes=memory,
        host_memory_bytes=host,
    )
    wide = partial(Gpt, vocabulary=512, layers=2, heads=4, width=256, context=64)

    def low(dtype: torch.dtype, weights: bool) -> nn.Module:
        made = wide()
        lower(made, dtype, stored=None, is_filled=weights, is_trained=True)
        return made

    small = replace(job(), model=wide, vocabulary=512, trained=low)
    forecasts = Forecasts(small, hardware, {"job": "shrunk", "low": trains_low})
    said: list[str] = []
    plan = Plan(micro_batch=1, accumulation=2).plus("autocast-bf16").plus("fused-adamw")
    found = fit_small(
        forecasts,
        plan,
        lambda note: said.append(note.text),
        may_recompute=False,
        trains_low=trains_low,
        barred=barred,
    )
    return forecasts, plan, found, said


def test_what_changes_the_training_least_makes_a_model_fit() -> None:
    forecasts, plan, _, _ = shrunk(1 << 40)
    less = plan.minus("fused-adamw").plus("adamw-8bit")
    lower_still = less.plus("trained-16bit")
    on_host = less.plus("adamw-8bit", state="host").plus("trained-16bit")
    plans = (less, lower_still, on_host)
    peaks = [forecasts.of(one).peak_bytes for one in plans]
    assert forecasts.of(plan).peak_bytes > peaks[0] > peaks[1] > peaks[2]
    for wanted, peak in zip(plans, peaks, strict=True):
        _, _, fit, said = shrunk(int(peak / HEAD_ROOM) + 1)
        assert fit.too_much is None
        assert set(fit.plan.techniques) == set(wanted.techniques)
        assert "which change the training" in said[0]
    assert shrunk(peaks[2] // 2)[2] is None
    just = int(peaks[2] / HEAD_ROOM) + 1
    assert shrunk(just, host=1000)[2] is None  # it has no room for pinned memory
    assert shrunk(just, trains_low=False)[2] is None
    assert shrunk(just, barred=("trained-16bit",))[2] is None


def test_what_recomputed_blocks_take_in_waits_in_host_memory_as_the_last_resort() -> None:
    """In place of a compilation that nobody asked for, and never of one that somebody did."""
    hardware = Hardware(device="cuda", name="a GPU", capability=(8, 9), memory_bytes=1 << 40)
    deep = replace(
        job(), model=lambda: Gpt(vocabulary=7, layers=12, heads=2, width=256, context=64)
    )
    plan = Plan(micro_batch=256).plus("compile")
    full = Plan(micro_batch=256).plus(RECOMPUTING, mode="full")
    moved = full.plus("activation-offload")
    settings = {"job": "deep"}
    peaks = [
        Forecasts(deep, hardware, settings).of(one).peak_bytes
        for one in (full.plus("compile"), moved)
    ]
    assert peaks[1] < 0.9 * peaks[0]
    tight = replace(hardware, memory_bytes=int(peaks[1] / HEAD_ROOM) + 1)
    said: list[str] = []
    for droppable, fits in ((("compile",), True), ((), False)):
        fit = fit_memory(
            Forecasts(deep, tight, settings),
            plan,
            lambda note: said.append(note.text),
            may_halve=False,
            may_recompute=True,
            droppable=droppable,
        )
        assert (fit.too_much is None) == fits
        assert (fit.plan.choice("activation-offload") is not None) == fits
        assert (fit.plan.choice("compile") is None) == fits
    assert (
        "the inputs of blocks wait in host memory (activation-offload), without compile" in said[0]
    )
    no_room = replace(tight, host_memory_bytes=1 << 20)
    for hardware, barred in ((no_room, ()), (tight, ("activation-offload",))):
        fit = fit_memory(
            Forecasts(deep, hardware, settings),
            plan,
            lambda note: None,
            may_halve=False,
            may_recompute=True,
            droppable=("compile",),
            barred=barred,
        )
        assert fit.too_much is not None
        assert fit.plan.choice("activation-offload") is None


def test_what_shares_a_model_among_ranks_is_never_dropped() -> None:
    hardware = Hardware(device="cuda", name="a GPU", capability=(8, 9), memory_bytes=1 << 20)
    plan = Plan(micro_batch=4, ranks=4).plus("fsdp2")
    fit = fit_memory(
        Forecasts(job(), hardware, {"job": "shared"}),
        plan,
        lambda note: None,
        may_halve=True,
        may_recompute=True,
        droppable=("fsdp2", "compile"),
    )
    assert fit.plan.choice("fsdp2") is not None
