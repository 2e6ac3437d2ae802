"""Convolutions are switched to channels_last and back, between two steps."""

import torch
from torch import nn

from hotloop.observe.experiments.layouts import ChannelsLast


def test_weights_states_and_inputs_are_turned_and_turned_back():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randn(2, 3, 8, 8)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        out = model(images)
        out.square().mean().backward()
        optimizer.step()
        return out

    step()
    variant = ChannelsLast(lambda: [optimizer])
    assert variant.prepare() is None
    variant.switch_on()
    assert step().is_contiguous(memory_format=torch.channels_last)
    moments = [s["exp_avg"] for s in optimizer.state.values() if s["exp_avg"].dim() == 4]
    assert all(m.is_contiguous(memory_format=torch.channels_last) for m in moments)
    variant.switch_off()
    assert step().is_contiguous()
    assert all(weight.is_contiguous() for weight in model.parameters())


def test_a_model_without_convolutions_or_turned_already_says_so():
    linear = nn.Linear(4, 4)
    variant = ChannelsLast(lambda: [torch.optim.SGD(linear.parameters(), lr=0.1)])
    assert "no weight" in (variant.prepare() or "")
    turned = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    variant = ChannelsLast(lambda: [torch.optim.SGD(turned.parameters(), lr=0.1)])
    assert "already" in (variant.prepare() or "")
