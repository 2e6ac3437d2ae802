"""A module that is called again on the same input returns what it returned before."""

import inspect

import pytest
import torch
from torch import nn

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.kept_calls import KeptCalls
from hotloop.observe.experiments.variants import NOT_REACHED


class Words(nn.Module):
    """A layer on the whole picture, called for each word."""

    def __init__(self, *, dropout=0.0):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(8, 8), nn.Dropout(dropout)) if dropout else None
        self.project = self.project or nn.Linear(8, 8)
        self.calls = 0
        self.project.register_forward_hook(self._count)

    def _count(self, *_):
        self.calls += 1

    def forward(self, picture, words):
        return sum(self.project(picture[:n]).sum() * (n + 1) for n in words)


def line():
    lines, first = inspect.getsourcelines(Words.forward)
    return SourceLocation(file=__file__, line=first + len(lines) - 1)


def trained(model, picture, words):
    model.zero_grad()
    loss = model(picture, words)
    loss.backward()
    return loss.item(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(("words", "calls"), [([4, 4, 4], 1), ([4, 3, 2], 1), ([2, 4, 4], 2)])
def test_one_call_gives_the_same_loss_and_gradients(words, calls):
    torch.manual_seed(0)
    model, picture = Words(), torch.randn(4, 8)
    variant = KeptCalls([line()])
    assert variant.prepare() == NOT_REACHED
    plain = trained(model, picture, words)
    assert model.calls == 3
    assert variant.prepare() is None  # repeated calls were seen
    variant.switch_on()
    model.calls = 0
    changed = trained(model, picture, words), trained(model, picture, words)
    assert model.calls == 2 * calls  # the graph of the first pass is gone
    variant.switch_off()
    for loss, gradients in changed:
        assert loss == pytest.approx(plain[0], rel=1e-5)
        torch.testing.assert_close(gradients, plain[1])
    trained(model, picture, words)
    assert model.calls == 2 * calls + 3


@pytest.mark.parametrize("change", ["value", "dropout"])
def test_another_value_or_another_draw_is_no_repeat(change):
    model, picture = Words(dropout=0.5 if change == "dropout" else 0.0), torch.randn(4, 8)
    variant = KeptCalls([line()])
    variant.prepare()
    for _ in range(2):
        with torch.no_grad():
            model(picture, [4] if change == "value" else [4, 4])
            picture.add_(1)
    assert variant.prepare() == NOT_REACHED
    variant.switch_off()
