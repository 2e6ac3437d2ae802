"""Dropout with cheap draws drops the share that it is told, and goes on from a saved state."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hotloop.models.attention.drop import CheapDropout, cheapen, drop


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 997), (1_000_003,)])
def test_the_share_and_the_mean_are_right(share, shape):
    torch.manual_seed(0)
    x = torch.ones(shape)
    y = drop(x, share)
    count = x.numel()
    spread = (share * (1 - share) / count) ** 0.5
    assert abs(float((y == 0).double().mean()) - share) < 4 * spread + 1e-5
    assert float(y.max()) == pytest.approx(1 / (1 - share), rel=1e-4)
    assert abs(float(y.double().mean()) - 1) < 4 * spread / (1 - share) + 1e-5


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    zeros = (drop(torch.ones(400_000), 0.3) == 0).double()
    for apart in (1, 2, 3, 4, 8):
        both = float((zeros[apart:] * zeros[:-apart]).mean())
        assert abs(both - 0.09) < 4 * (0.09 * 0.91 / len(zeros)) ** 0.5, apart


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_pass_where_numbers_do(dtype):
    x = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    y = drop(x, 0.4)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert y.dtype == dtype
    assert torch.equal(grad == 0, y == 0)
    assert torch.allclose(y, x * grad)


def test_all_none_and_nothing():
    x = torch.randn(3, 5)
    assert torch.equal(drop(x, 0.0), x)
    assert not drop(x, 1.0).any()
    assert drop(torch.empty(0, 4), 0.3).shape == (0, 4)


def test_a_saved_generator_goes_on_with_the_same_draws():
    x = torch.randn(50, 3, requires_grad=True)
    state = torch.get_rng_state()
    first = drop(x, 0.5)
    torch.set_rng_state(state)
    assert torch.equal(drop(x, 0.5), first)
    module = cheapened(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    torch.set_rng_state(state)
    plain = torch.autograd.grad(module(x).sum(), x)
    torch.set_rng_state(state)
    again = torch.autograd.grad(checkpoint(module, x, use_reentrant=False).sum(), x)
    assert torch.equal(plain[0], again[0])


def cheapened(model):
    cheapen(model)
    return model


def test_modules_drop_in_training_alone():
    class Own(nn.Dropout):
        pass

    model = cheapened(nn.Sequential(nn.Dropout(0.5), Own(0.5)))
    assert [type(module) for module in model] == [CheapDropout, Own]
    x = torch.ones(1000)
    assert 300 < int((model[0](x) == 0).sum()) < 700
    assert torch.equal(model.eval()(x), x)
