"""The parts of a step are those of its operators, and add up to the step."""

import contextlib

import pytest
import torch
from benchmarks.turns import Finished

from benchmarks import step_parts


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::mm", step_parts.PRODUCTS),
        ("aten::addmm", step_parts.PRODUCTS),
        ("aten::bmm", "attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention"),
        ("aten::_softmax", "attention"),
        ("aten::_log_softmax_backward_data", "loss"),
        ("aten::mul", "other operators"),
        ("autograd::engine::evaluate_function: MmBackward0", "other operators"),
    ],
)
def test_an_operator_has_one_kind(operator, kind):
    assert step_parts.kind(operator) == kind


def test_the_parts_of_a_loop_of_products_are_products():
    steps = step_parts.Steps(tokens_of=lambda number: 10 * number)
    left, right = torch.ones(64, 256), torch.ones(256, 128)
    with contextlib.suppress(Finished):
        while True:
            steps.pull()
            left @ right
    assert steps.steps == step_parts.WARM + step_parts.PLAIN + step_parts.PROFILED
    found = step_parts.parts(steps, torch.float32)
    assert found["products_gflop"] == pytest.approx(2 * 64 * 256 * 128 / 10 / 1e6)
    assert sum(found["kinds_ms"].values()) == pytest.approx(found["profiled_ms"])
    assert found["kinds_ms"][step_parts.PRODUCTS] > 0
    assert found["products_alone_ms"] > 0
