"""What is decided by timing is decided by the run's own first micro batches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.data.sampling.context_windows import Windows
from hotloop.engine import first_micro_batches
from hotloop.engine.first_micro_batches import settled
from hotloop.machine.onednn_matmul import Products
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.accumulation_windows import AccumulationWindows
from hotloop.session.job import Job

CPU = Hardware(device="cpu", name="a CPU", cores=2.0, cpu_features=frozenset({"avx2"}))
GPU = Hardware(device="cuda", name="a GPU", capability=(8, 0))
PLAN = Plan(micro_batch=4).plus("matmul-onednn").plus("gc-freeze")
GOOD = Products(relative_error=4e-7, same_bits=False, rate=1.9)  # of 512 x 512
LONG = 1000  # steps: enough to measure with


@dataclass
class Clock:
    """Seconds that pass in forward passes alone, by the precision that is set."""

    medium: float
    now: float = 0.0
    passes: int = 0

    def __call__(self) -> float:
        return self.now

    def loss(self, model: nn.Module, tensors: Any) -> torch.Tensor:
        self.passes += 1
        self.now += self.medium if torch.get_float32_matmul_precision() == "medium" else 1.0
        return next_token_loss(model, tensors)


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Any:
    def are(found: Products) -> None:
        monkeypatch.setattr("hotloop.machine.onednn_matmul.compare_products", lambda: found)

    are(GOOD)
    return are


def job(clock: Clock | None = None) -> Job:
    windows = Windows(
        np.arange(400, dtype=np.uint16) % 7, tokens_fingerprint="", context=8, seed=0, shuffle=True
    )
    return Job(
        name="first steps",
        model=lambda: Gpt(vocabulary=7, layers=1, heads=2, width=8, context=8, dropout=0.1),
        loss=next_token_loss if clock is None else clock.loss,
        optimizer=AdamWFactory(learning_rate=1e-2, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=0,
    )


def rate(of: Job, plan: Plan = PLAN, *, steps: int = LONG, hardware: Hardware = CPU) -> Any:
    feed = AccumulationWindows(samples=of.train, batch_size=4, drop_last=True)
    found = settled(of, plan, hardware, feed, steps)
    assert found.choice("gc-freeze") == {}
    return (found.choice("matmul-onednn") or {}).get("rate")


@pytest.mark.parametrize(("medium", "word"), [(3.0, "lower"), (1.0, "lower"), (0.5, "higher")])
def test_the_steps_decide_and_no_product_of_another_shape(
    medium: float, word: str, products: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(medium)
    monkeypatch.setattr(first_micro_batches, "clock", clock)
    assert rate(job(clock)) == word
    assert clock.passes > 2 * first_micro_batches.FEWEST


def test_no_step_is_spent_where_nothing_would_change_or_the_run_is_short(products: Any) -> None:
    for found, steps in (
        (replace(GOOD, relative_error=2e-3), LONG),
        (replace(GOOD, same_bits=True), LONG),
        (GOOD, 100),
    ):
        products(found)
        clock = Clock(0.5)
        assert rate(job(clock), steps=steps) == "lower"
        assert clock.passes == 0


def test_of_a_long_run_a_small_share_is_spent(products: Any) -> None:
    for steps in (200, 400, 100_000):
        clock = Clock(0.5)
        rate(job(clock), steps=steps)
        assert (
            clock.passes <= min(2 * first_micro_batches.MOST, first_micro_batches.SHARE * steps) + 1
        )


def test_what_the_plan_says_is_not_measured_again(products: Any) -> None:
    for word in ("higher", "lower"):
        clock = Clock(0.5)
        assert rate(job(clock), PLAN.plus("matmul-onednn", rate=word)) == word
        assert clock.passes == 0


def test_on_a_gpu_nothing_is_measured(products: Any) -> None:
    clock = Clock(0.5)
    assert rate(job(clock), hardware=GPU) is None
    assert clock.passes == 0


def test_the_real_steps_are_timed_with_the_other_techniques_in_effect(products: Any) -> None:
    threads: list[int] = []

    class Noting(Clock):
        def loss(self, model: nn.Module, tensors: Any) -> torch.Tensor:
            threads.append(torch.get_num_threads())
            return super().loss(model, tensors)

    assert rate(job(Noting(1.0)), PLAN.plus("threads", count=1)) in ("higher", "lower")
    assert set(threads) == {1}
