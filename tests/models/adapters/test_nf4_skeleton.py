"""The sizes of packed weights without packing: those that bitsandbytes makes."""

import pytest
import torch
from tests.golden.adapting import QUIET
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.nf4_linear import elements, quantise
from hotloop.models.adapters.nf4_skeleton import size_as_packed

pytestmark = pytest.mark.filterwarnings(QUIET)


def model():
    return nn.Sequential(nn.Linear(256, 192), nn.Linear(192, 64, bias=False))


def stored(packed):
    """Return the bytes of the weights and of what is needed to unpack them."""
    total = 0
    for layer in packed:
        state = layer.weight.quant_state
        parts = layer.weight, state.absmax, state.code, state.offset
        parts += state.state2.absmax, state.state2.code
        total += sum(part.untyped_storage().nbytes() for part in parts)
    return total


def test_they_are_those_of_packed_weights():
    real, sized = model(), model()
    quantise(real)
    size_as_packed(sized)
    assert stored(sized) == stored(real)
    numbers = 256 * 192 + 192 * 64
    assert sum(layer.weight.untyped_storage().nbytes() for layer in sized) == numbers // 2
    assert sum(buffer.nbytes for buffer in sized.buffers()) == numbers // 64
    assert sum(p.numel() for p in sized.parameters()) == numbers + 192
    assert [elements(p) for p in sized.parameters()] == [p.numel() for p in model().parameters()]


def test_what_is_kept_is_kept():
    sized = model()
    size_as_packed(sized, keep=["1"])
    assert type(sized[1]) is nn.Linear
    assert sized[1].weight.untyped_storage().nbytes() == 192 * 64 * 4


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
def test_adapters_compute_on_them_in_sizes(kind):
    with FakeTensorMode():
        sized = model()
        size_as_packed(sized)
        attach(sized, AdapterConfig(kind=kind, rank=4))
        out = sized(torch.randn(5, 256))
        out.sum().backward()
    assert out.shape == (5, 64)
    assert all(p.grad.shape == p.shape for p in sized.parameters() if p.requires_grad)
    real = model()
    quantise(real)  # bitsandbytes' tables were left as they are
    assert torch.isfinite(real(torch.randn(5, 256))).all()
