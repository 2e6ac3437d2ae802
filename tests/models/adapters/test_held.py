"""Adapters that are prepared together are those that each layer would prepare alone."""

import pytest
import torch
from tests.golden.adapting import stirred
from torch import nn

from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.dora import as_two
from hotloop.models.adapters.held import adapters_held
from hotloop.models.adapters.lora import LoraLinear
from hotloop.models.adapters.product import low_copy

KINDS = ("lora", "dora")
SIZES = ((12, 8), (12, 8), (8, 12), (12, 8))  # three of one shape


def model(kind, dtype=torch.float32):
    torch.manual_seed(0)
    layers = nn.ModuleList(
        [nn.Linear(i, o, bias=at != 3, dtype=dtype) for at, (i, o) in enumerate(SIZES)]
    )
    made = nn.ModuleDict({"layers": layers})
    attach(made, AdapterConfig(kind=kind, rank=4, alpha=6))
    return stirred(made, by=0.3)


def passed(made, seed=1):
    """Return the outputs and the gradients of a pass through each layer."""
    torch.manual_seed(seed)
    outputs = [layer(torch.randn(20, layer.in_features)) for layer in made["layers"]]
    sum(y.float().square().sum() for y in outputs).backward()
    gradients = [p.grad.clone() for p in made.parameters() if p.requires_grad]
    made.zero_grad()
    return [*(y.detach() for y in outputs), *gradients]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("low", [False, True])
def test_held_adapters_compute_what_each_layer_computes_alone(kind, low):
    made = model(kind, torch.bfloat16 if low else torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        alone = passed(made)
        with adapters_held(made):
            held = passed(made)
            with torch.no_grad():
                made["layers"][1].lora_B.mul_(2)
            changed = passed(made)
        alone_again = passed(made)
    close = {"rtol": 1e-5, "atol": 1e-6}  # sums over several layers may be made in another order
    assert all(torch.allclose(a, b, **close) for a, b in zip(alone, held, strict=True))
    assert all(torch.allclose(a, b, **close) for a, b in zip(alone_again, changed, strict=True))
    assert not torch.equal(held[1], changed[1])


@pytest.mark.parametrize("kind", KINDS)
def test_layers_with_a_of_one_shape_are_prepared_at_once(kind, monkeypatch):
    made, seen = model(kind), []
    cls = type(made["layers"][0])
    prepare = cls.prepare.__func__

    def counted(cls, layers, dtype):
        seen.append(len(layers))
        return prepare(cls, layers, dtype)

    monkeypatch.setattr(cls, "prepare", classmethod(counted))
    with adapters_held(made):
        passed(made)
        passed(made)
    assert sorted(seen) == [1, 3], "two shapes; a bias makes no difference"
    seen.clear()
    passed(made)
    assert seen == [1] * 4, "outside of the context each forward pass prepares its own"


def test_a_layer_that_is_sharded_over_ranks_is_prepared_alone():
    class Sharded(nn.Parameter):
        """Stands for a DTensor, whose rows are elsewhere."""

    made = model("lora")
    for layer in made["layers"]:
        layer.lora_A.__class__ = Sharded
    with adapters_held(made):
        holders = {id(layer.holder) for layer in adapted(made).values()}
    assert len(holders) == len(SIZES)


def test_layers_that_are_called_with_one_tensor_share_its_copy():
    x = torch.randn(4, 8)
    copy = low_copy(x, torch.bfloat16)
    assert copy.dtype == torch.bfloat16
    assert low_copy(x, torch.bfloat16).data_ptr() == copy.data_ptr()
    assert low_copy(x, torch.float16).dtype == torch.float16
    first = low_copy(x, torch.bfloat16)
    x.mul_(2)
    assert torch.equal(low_copy(x, torch.bfloat16), x.bfloat16()), "it follows what is written"
    assert not torch.equal(first, x.bfloat16())
    with torch.inference_mode():
        inferred = x * 1
        assert torch.equal(low_copy(inferred, torch.bfloat16), x.bfloat16())
    assert low_copy(x, torch.float32).data_ptr() == x.data_ptr()


@pytest.mark.parametrize(("dtype", "most"), [(torch.bfloat16, 2**-16), (torch.float16, 2**-20)])
def test_two_numbers_of_16_bits_stand_for_one_of_32(dtype, most):
    torch.manual_seed(0)
    a_GRI = torch.randn(2, 4, 300)  # noqa: N806 - dims
    two = as_two(a_GRI, dtype).double()
    assert two.shape == (2, 8, 300)
    error = (two[:, :4] + two[:, 4:] - a_GRI.double()).abs() / a_GRI.abs()
    assert error[a_GRI.abs() > 0.05].max() <= most


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_layer_with_a_bias_is_equal(kind):
    made = model(kind)["layers"][0]
    assert isinstance(made, LoraLinear)
    x = torch.randn(20, 12)
    assert torch.allclose(torch.compile(made, backend="aot_eager", fullgraph=True)(x), made(x))
