"""The estimate of a card's time: a roofline, its errors beside it, and nothing where peaks lack."""

import json
from dataclasses import replace

import pytest
from tests.paths import ROOT
from tests.rehearse.test_verdicts import RAN, RTX4090

from hotloop.core.case.rehearsal import KernelWork
from hotloop.nullcard.cards import CARDS
from hotloop.rehearse.kernel_kinds import CONVOLUTIONS
from hotloop.rehearse.kernel_model import MODEL, device_seconds, estimate, rates

HALF = replace(MODEL, compute=0.5, bandwidth=0.5)
GPU = RTX4090.spec
PUBLISHED = json.loads((ROOT / "benchmarks/rehearsals/published.json").read_text())


def test_an_operator_takes_the_longer_of_its_two_times():
    product = KernelWork(calls=3, flops=10**12, bytes=10**6, precision="bf16")
    assert device_seconds([product], GPU, HALF) == pytest.approx(3 * 2 * 1e12 / 165.2e12)
    moving = KernelWork(calls=2, flops=0, bytes=10**9)
    assert device_seconds([moving], GPU, HALF) == pytest.approx(2 * 2 * 1e9 / 1.008e12)
    both = device_seconds([product, moving], GPU, HALF)
    assert both == pytest.approx(6e12 / 165.2e12 + 4e9 / 1.008e12)


def test_the_rates_of_a_card_whose_work_takes_time():
    double, single, *tensor_cores, memory, bus = rates(GPU, HALF)
    assert (single, memory) == (pytest.approx(82.6e12 / 2), pytest.approx(1.008e12 / 2))
    assert (double, bus) == (pytest.approx(single / 64), pytest.approx(31.5e9 / 2))
    assert tensor_cores == pytest.approx([82.6e12 / 2, 165.2e12 / 2, 165.2e12 / 2])
    t4 = rates(CARDS["t4"].spec, HALF)
    assert t4[4] == t4[1]  # bf16 without tensor cores
    assert rates(replace(GPU, bandwidth=None)) is None


def test_what_is_not_published_is_not_guessed():
    bf16 = KernelWork(calls=1, flops=1, bytes=1, precision="bf16")
    assert device_seconds([bf16], CARDS["t4"].spec) == "no peak of this card in bf16 is known"
    unknown = replace(CARDS["rtx3060"].spec, bandwidth=None)
    assert device_seconds([bf16], unknown) == "no bandwidth of this card is known"


def seen(batch, size, host=0.002):
    steps = tuple(replace(step, seconds=host) for step in RAN.steps)
    work = (KernelWork(calls=1, flops=0, bytes=size), KernelWork(calls=1, flops=0, bytes=10**8))
    return replace(RAN, steps=steps, batch=batch, work=work)


def test_the_limit_is_told_only_beyond_the_error():
    large = 1 + MODEL.largest_error
    rate = MODEL.bandwidth * GPU.bandwidth
    for card, limit in ((1.1 * large, "card"), (0.9 * large, None), (0.9 / large, "host")):
        found = estimate(seen(8, int(0.002 * card * rate - 10**8)), None, GPU)
        assert found.card_seconds == pytest.approx(0.002 * card)
        assert found.limit == limit
        assert found.card_from is None


def test_convolutions_are_not_launched_as_on_a_card():
    run = replace(seen(8, 10**9), kernels=(CONVOLUTIONS,))
    found = estimate(run, seen(16, 2 * 10**9), GPU)
    assert found.card_seconds is not None
    assert (found.limit, found.card_from) == (None, None)
    assert "convolutions launch other kernels here" in found.why_no_limit


def test_the_batch_from_which_the_card_limits_is_on_a_line():
    rate = MODEL.bandwidth * GPU.bandwidth
    fixed = 10**8 / rate
    small, large = seen(8, int(0.0001 * rate)), seen(16, int(0.0002 * rate))
    found = estimate(small, large, GPU)
    assert found.card_from == round(8 * (0.002 - fixed) / 0.0001)
    assert estimate(small, seen(8, 1), GPU).card_from is None


def test_no_step_no_estimate():
    assert estimate(replace(RAN, steps=()), None, GPU) is None
    found = estimate(replace(RAN, work=()), None, GPU)
    assert (found.card_seconds, found.why_not) == (None, "no operator was counted")
    assert found.limit is None


def test_the_model_stands_on_published_figures():
    figures = PUBLISHED["figures"]
    assert MODEL.fitted + MODEL.held_back == len(figures) >= 10
    assert MODEL.held_back == sum(figure["held_back"] for figure in figures) >= 5
    assert all(figure["source"] in PUBLISHED["sources"] for figure in figures)
    assert all("https://" in source for source in PUBLISHED["sources"].values())
    assert 0 < MODEL.compute <= 1
    assert 0 < MODEL.bandwidth <= 1
    found = estimate(seen(8, 10**9), None, GPU)
    assert found.is_rough == (MODEL.median_error > 0.3)
