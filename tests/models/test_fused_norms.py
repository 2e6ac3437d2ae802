"""RMS norms are replaced where they are proved to be some, and nothing else is."""

import pytest
import torch
from tests.golden import tiny_models
from tests.golden.techniques.fused_rms_norm import WrittenOut
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hotloop.models.fused_norms import FusedNorm, fuse


class Mean(WrittenOut):
    """It has all that an RMS norm has, and takes off the mean."""

    def forward(self, x):
        return super().forward(x - x.mean(-1, keepdim=True))


class OverRows(WrittenOut):
    """It is one over the second dimension, which is the last of two."""

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + self.variance_epsilon)


class Raises(WrittenOut):
    def forward(self, x):
        raise RuntimeError("only for images")


@pytest.mark.parametrize("kind", [Mean, OverRows, Raises, lambda width: nn.LayerNorm(width)])
def test_what_is_no_rms_norm_is_left_alone(kind):
    model = nn.Sequential(kind(8))
    assert fuse(model) == []
    assert type(model[0]) is not FusedNorm


def test_another_width_epsilon_or_offset_is_kept():
    model = nn.ModuleDict({"wide": WrittenOut(24), "narrow": WrittenOut(8)})
    model["narrow"].variance_epsilon = 0.5
    expected = {
        name: module(torch.ones(3, module.weight.numel()) * 0.3) for name, module in model.items()
    }
    weight = model["wide"].weight
    assert sorted(fuse(model)) == ["narrow", "wide"]
    assert model["wide"].weight is weight
    for name, y in expected.items():
        x = torch.ones(3, y.shape[1]) * 0.3
        assert torch.allclose(model[name](x), y, rtol=1e-6)


@pytest.mark.parametrize(("name", "count"), [("qwen3", 13), ("gemma3", 19), ("llama", 7)])
@pytest.mark.parametrize("low", [False, True])
def test_the_models_of_transformers_make_the_same(tmp_path, name, count, low):
    """Under autocast the norms of heads have inputs in 16 bits, which are not rounded again."""
    folder = tiny_models.saved(tmp_path, name)
    plain, fused = (tiny_models.loaded(folder) for _ in range(2))
    assert len(fuse(fused)) == count
    assert fuse(fused) == [], "a second time there is nothing"
    assert plain.state_dict().keys() == fused.state_dict().keys()
    batch = {"input_ids": torch.arange(1, 25).view(2, 12)}
    said, gradients = [], []
    for model in (plain, fused):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            y = model(batch)
        y.float().square().mean().backward()
        said.append(y.detach())
        gradients.append([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    close = 2e-2 if low else 1e-5
    assert said[0].dtype == said[1].dtype
    assert (said[0] - said[1]).norm() <= close * said[0].norm()
    for one, other in zip(*gradients, strict=True):
        assert (one - other).norm() <= 5 * close * one.norm() + 1e-7


@pytest.mark.parametrize("mode", [FakeTensorMode, lambda: torch.device("meta")])
def test_a_model_without_numbers_is_known_by_its_class(mode):
    with mode():
        model = nn.Sequential(WrittenOut(8), Mean(8))
        assert fuse(model) == ["0"]
