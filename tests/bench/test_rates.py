from dataclasses import replace

import pytest

from hotloop.bench.rates import figures, forecast_epoch
from hotloop.bench.tokens_per_sample import work_of
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.core.trial import Trial

from .conftest import SAID, Told, ceilings

PLAN = Plan(micro_batch=2, accumulation=3)
TRIAL = Trial(plan=PLAN, rounds=dict.fromkeys(range(6), 0.5), steps=60, peak_bytes=1 << 30)


def heard(**changes) -> Told:
    told = Told(lambda channel: [])
    for name, value in changes.items():
        setattr(told, name, value)
    return told


def test_rates_are_of_the_median_step_and_the_whole_batch(parts):
    found = figures(parts, work_of(parts.job), TRIAL, heard(), ceilings(parts), None)
    assert found.values["it_per_s"] == 2
    assert found.values["samples_per_s"] == 12
    assert found.values["tokens_per_s"] == found.values["targets_per_s"] == 12 * 16
    flops = parts.flops_per_token * 12 * 16
    assert found.values["of_ceiling"] == pytest.approx(flops / 1e12)
    assert found.values["mfu"] == found.values["of_ceiling"], "nothing is published for a CPU"
    assert found.values["cpu_util"] == pytest.approx(1 / parts.hardware.cores)
    assert found.values["ram"] == 300 << 20
    assert found.impossible is None


def test_what_a_cpu_does_not_have_is_unknown_with_its_reason(parts):
    found = figures(parts, work_of(parts.job), TRIAL, heard(), ceilings(parts), None)
    for name in ("gpu_util", "vram", "temperature_c"):
        assert name not in found.values
        assert found.unknown[name] == "this machine trains on its CPU"


def test_a_gpu_that_cannot_be_read_is_unknown_not_zero(parts):
    gpu = Hardware(device="cuda", name="a GPU", capability=(8, 6), cores=2)
    on_gpu = replace(parts, hardware=gpu)
    trial = replace(TRIAL, peak_of="gpu")
    found = figures(
        on_gpu, work_of(parts.job), trial, heard(), ceilings(on_gpu), "the driver is too old"
    )
    assert found.values["vram"] == 1 << 30
    assert found.unknown["gpu_util"] == "the driver is too old"
    seen = heard(gpu={"gpu_util": 0.5, "temperature_c": 70.0})
    found = figures(on_gpu, work_of(parts.job), trial, seen, ceilings(on_gpu), None)
    assert found.values["gpu_util"] == 0.5
    assert found.unknown == {}


def test_more_than_the_ceiling_is_impossible(parts):
    found = figures(parts, work_of(parts.job), TRIAL, heard(), ceilings(parts, rate=1e3), None)
    assert "tokens/s x" in found.impossible
    assert "it cannot be" in found.impossible


def test_without_flop_the_ceiling_says_nothing(parts):
    forecast = replace(parts.decision.forecast, flops=0)
    blind = replace(parts, decision=replace(parts.decision, forecast=forecast))
    found = figures(blind, work_of(parts.job), TRIAL, heard(), ceilings(parts), None)
    assert found.unknown["mfu"] == "the model's FLOP are not known"


def test_an_epoch_is_the_sum_of_what_was_measured(parts):
    whole = forecast_epoch(parts, TRIAL, SAID)
    assert whole.work.steps == parts.feed.steps_per_epoch == 19
    assert whole.rows["step"] + whole.rows["data wait"] == pytest.approx(19 * 0.5)
    assert whole.rows["start"] == 3.0
    assert whole.rows["save"] > 0
    assert forecast_epoch(parts, TRIAL, {**SAID, "aside": None}) is None
