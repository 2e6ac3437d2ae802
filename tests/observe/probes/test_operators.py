from pathlib import Path

import pytest
import torch

from hotloop.observe.probes.operators import Profile

WIDE = 512


def step(weight: torch.Tensor) -> None:
    x = torch.ones(WIDE, WIDE)
    product = x @ weight  # the line
    product.sum().backward()


LINE = next(
    i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "the line" in text
)


@pytest.fixture(scope="module")
def operators():
    weight = torch.nn.Parameter(torch.ones(WIDE, WIDE))
    profile = Profile()
    step(weight)
    profile.start()
    for _ in range(2):
        step(weight)
    profile.look_for_lines()
    step(weight)
    return profile.operators(steps=2, step_time=1.0)


def test_the_hottest_operator_stands_first_with_shapes_and_calls(operators):
    matmuls = [operator for operator in operators if operator.name == "aten::mm"]
    assert operators[0] == matmuls[0]
    shapes = f"{WIDE}x{WIDE} {WIDE}x{WIDE}"
    assert (matmuls[0].shapes, matmuls[0].dtype, matmuls[0].device) == (shapes, "float32", "cpu")
    assert sum(operator.calls for operator in matmuls) == 2  # forward, and the weight's gradient
    assert matmuls[0].share == pytest.approx(matmuls[0].seconds)
    assert len(operators) <= 10


def test_forward_and_backward_name_the_projects_line(operators):
    for operator in operators:
        if operator.name == "aten::mm":
            assert operator.place is not None
            assert (operator.place.file, operator.place.line) == (__file__, LINE)


def test_anomaly_mode_is_off_again(operators):
    assert operators
    assert not torch.is_anomaly_enabled()
