"""Weights in 4 bits: counted as such, and warned of where they save nothing that is needed."""

from dataclasses import replace

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer
from tests.golden.adapting import QUIET

from hotloop.core.hardware import HEAD_ROOM, Hardware
from hotloop.jobs.forecast import memory_forecast
from hotloop.jobs.forecast.limits import too_much
from hotloop.jobs.forecast.memory_fit import Forecasts, fit_memory, packing_loses, shapes
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.jobs.train import silent

pytestmark = pytest.mark.filterwarnings(QUIET)
WIDE = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 32, "vocab_size": 400}
WSL = "Linux-5.15.90.1-microsoft-standard-WSL2-x86_64"


@pytest.fixture(scope="module")
def request_of(tmp_path_factory):
    """Return what makes a request of a tiny model with adapters, packed or not."""
    folder = tmp_path_factory.mktemp("qwen3")
    tiny_tokenizer.save(folder)
    tiny_models.saved(folder, "qwen3", **WIDE)
    rows = [{"question": f"{at} the fox", "answer": "lazy dog"} for at in range(40)]
    data = jsonl(folder / "rows.jsonl", rows)

    def make(quantization):
        keys = f"model.name={folder}", f"data.path={data}", "data.max_length=48", "adapter.rank=4"
        return fresh_request("chat-sft", [*keys, f"adapter.quantization={quantization}"])

    return make


@pytest.fixture(scope="module")
def both(request_of):
    return {how: assemble(request_of(how), silent, lambda: None) for how in ("none", "nf4")}


def gpu(memory, platform="Linux-6.8-x86_64"):
    versions = {"platform": platform}
    return Hardware(device="cuda", name="a GPU", memory_bytes=memory, versions=versions)


def test_packed_weights_are_forecast_at_half_a_byte(both):
    plain, packed = both["none"].decision.forecast, both["nf4"].decision.forecast
    assert plain.parameters == packed.parameters
    assert plain.gradients_bytes == packed.gradients_bytes
    numbers = sum(
        parameter.numel()
        for name, parameter in both["none"].job.skeleton().named_parameters()
        if name.endswith("_proj.weight")
    )
    saved = plain.parameters_bytes - packed.parameters_bytes
    assert numbers > 500_000
    of_plain = 2 if both["none"].plan.choice("frozen-16bit") is not None else 4  # as the CPU has it
    assert of_plain - saved / numbers == pytest.approx(0.5 + 1 / 64, abs=0.001)


def test_the_forecast_is_near_a_step_that_is_made(both):
    parts = both["nf4"]
    made = memory_forecast.measure(parts.job, micro_batch=parts.plan.micro_batch)
    assert parts.decision.forecast.peak_bytes == pytest.approx(made.peak_bytes, rel=0.06)


def test_it_is_a_net_loss_where_the_unpacked_weights_fit(both):
    plain, packed = both["none"], both["nf4"]
    settings = shapes(plain.request.config, plain.job)
    peak = Forecasts(plain.job, gpu(None), settings).of(plain.plan).peak_bytes

    def said(memory):
        forecasts = Forecasts(plain.job, gpu(memory), settings)
        return packing_loses(forecasts, plain.plan, packed.decision.forecast)

    text = said(int(peak / HEAD_ROOM) + 1)
    assert text is not None
    assert text.startswith("QLoRA is a net loss here: with adapter.quantization=none")
    assert said(int(peak / HEAD_ROOM) - 1) is None, "there packing is what makes it fit"
    assert said(None) is None


def test_the_run_hears_of_it_and_one_without_packing_does_not(both):
    assert any("QLoRA is a net loss" in doubt for doubt in both["nf4"].doubts())
    assert both["none"].decision.packing is None


def test_what_does_not_fit_spills_where_the_driver_lets_it(both):
    parts = both["nf4"]
    settings = shapes(parts.request.config, parts.job)

    def why(hardware):
        forecasts = Forecasts(parts.job, hardware, settings)
        return fit_memory(forecasts, parts.plan, silent, may_halve=False).too_much or ""

    assert "activation-checkpointing:mode=full is forecast to need less" in why(gpu(1))
    for platform, expected in (("Linux-6.8-x86_64", "out of memory"), (WSL, "expect it to spill")):
        small = gpu(parts.decision.forecast.peak_bytes, platform)  # no head-room
        assert expected in why(small)
    assert "spill" not in too_much(replace(gpu(1, WSL), device="cpu"))
