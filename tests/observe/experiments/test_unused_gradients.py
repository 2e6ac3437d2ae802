"""Models without an optimizer take no gradients, and gradients still pass through them."""

import torch
from torch import nn

from hotloop.observe.experiments.unused_gradients import UnusedGradients


def test_only_models_without_an_optimizer_are_switched_and_switched_back():
    student, teacher = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    variant = UnusedGradients(lambda: [optimizer])
    assert variant.prepare() is None
    variant.switch_on()
    teacher(student(torch.randn(2, 4))).sum().backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert all(weight.grad is not None for weight in student.parameters())
    variant.switch_off()
    assert all(weight.requires_grad for weight in teacher.parameters())
