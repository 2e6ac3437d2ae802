import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
from tests.golden.cases import healthy
from tests.observing import observed
from torch import nn

from hotloop.core.case.case import Case
from hotloop.observe.build_case import MOST_STEPS, build_case, sources, with_products
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process.run_script import ScriptTarget


def steps(count: int) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for _ in range(count):
        (parameter - 1).square().sum().backward()
        optimizer.step()


def test_a_case_of_what_really_ran_survives_json():
    case = observed(lambda: steps(8))
    assert Case.from_json(case.to_json()) == case
    assert case.hardware.device in {"cpu", "cuda"}


def test_long_runs_are_thinned_evenly():
    case = observed(lambda: steps(MOST_STEPS + 100))
    assert case.steps.count == MOST_STEPS + 100
    assert MOST_STEPS // 2 < len(case.steps.wall) <= MOST_STEPS
    assert case.steps.numbers[:3] == (2, 4, 6), "the first step began with the script"
    assert len(case.optimizers[0].rates) <= 500


def test_a_loss_that_is_not_finite_is_kept_with_its_step():
    def train() -> None:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        for step in range(5):
            (parameter * (float("inf") if step == 2 else 1.0)).sum().backward()
            optimizer.step()

    assert observed(train).steps.nonfinite == 3


def test_a_process_without_torch_doors_has_an_empty_case():
    observer = ScriptObserver(StopLimits(full=True))
    case = build_case(observer, ScriptTarget(name="package.train", is_module=True))
    assert (case.script, case.steps.count, case.steps.how) == ("package.train", 0, "none")
    assert (case.framework, case.loaders, case.wall) == ("plain", (), {})


def test_a_script_is_named_by_its_absolute_path():
    case = build_case(
        ScriptObserver(StopLimits()),
        ScriptTarget(name="train.py", is_module=False, args=("--lr", "1")),
    )
    assert case.script == os.path.abspath("train.py")
    assert case.arguments == ("--lr", "1")


def test_sources_are_the_projects_own():
    found = sources([__file__])  # a project of many files: those that were seen come first
    assert found[__file__] == Path(__file__).read_text()
    assert not any("site-packages" in path or path == os.__file__ for path in found)
    assert sys.modules["hotloop.observe.build_case"].__file__ not in found


def test_garbage_is_counted_between_the_first_and_the_last_step():
    import gc

    def train() -> None:
        gc.collect()
        steps(3)
        gc.collect()

    assert observed(train).process.gc_full == 0

    def train_and_collect() -> None:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        for _ in range(3):
            parameter.sum().backward()
            optimizer.step()
            gc.collect()

    process = observed(train_and_collect).process
    assert process.gc_full == 2, "the third comes after the last step"
    assert process.gc_seconds >= process.gc_longest > 0


def test_products_are_measured_where_the_work_of_a_step_is_known():
    case = healthy()
    assert with_products(case) is case
    counted = with_products(replace(case, steps=replace(case.steps, flops=1e9)))
    assert counted.hardware.measured["fp32"].unit == "FLOP/s"
