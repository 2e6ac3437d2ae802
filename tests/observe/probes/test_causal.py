"""Whether a later token changes an earlier output."""

import pytest
import torch
from torch import nn

from hotloop.observe.probes.causal import is_causal


class Mixer(nn.Module):
    """Adds to each token the mean of those before it, or of all."""

    def __init__(self, causal):
        super().__init__()
        self.causal, self.embed, self.drop = causal, nn.Embedding(20, 8), nn.Dropout(0.5)

    def forward(self, ids, **more):
        x = self.embed(ids)
        mixed = x.cumsum(1) if self.causal else x.sum(1, keepdim=True)
        return {"loss": x.mean(), "logits": self.drop(x + mixed)}


IDS = torch.arange(16).reshape(2, 8)


@pytest.mark.parametrize("causal", [True, False])
def test_one_changed_token_tells(causal):
    model = Mixer(causal)
    before, state, ids = torch.get_rng_state(), model.training, IDS.clone()
    assert is_causal(model, (ids,), {}) is causal
    assert model.training is state
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(ids, IDS)


def test_a_mask_of_the_same_shape_is_not_taken_for_the_tokens():
    mask = torch.ones_like(IDS)
    assert is_causal(Mixer(True), (), {"mask": mask, "ids": IDS}) is True


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (nn.Linear(8, 8), (torch.randn(2, 8),)),  # no tokens
        (Mixer(True), (torch.zeros(2, 8, dtype=torch.long),)),  # no other token
        (Mixer(True), (torch.tensor([[1, 2]]),)),  # too short
        (nn.Sequential(nn.Embedding(20, 8), nn.Flatten()), (IDS,)),  # no output per token
    ],
)
def test_what_cannot_be_told_is_none(model, args):
    assert is_causal(model, args, {}) is None


def test_a_model_that_draws_in_evaluation_mode_is_none():
    class Noisy(Mixer):
        def forward(self, ids, **more):
            return torch.rand_like(self.embed(ids))

    assert is_causal(Noisy(True), (IDS,), {}) is None


class Pooled(nn.Module):
    """Two blocks of attention, and one output for the whole sentence."""

    def __init__(self, causal, pool=lambda x: x.mean(1)):
        super().__init__()
        self.embed, self.pool = nn.Embedding(20, 8), pool
        self.blocks = nn.ModuleList([Block(causal), Block(causal)])
        self.head = nn.Linear(8, 2)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x))


class Block(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.norm, self.qkv = nn.LayerNorm(8, elementwise_affine=False), nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.norm(x + mixed)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("pool", [lambda x: x.mean(1), lambda x: x[:, -1], lambda x: x.mean()])
def test_a_model_that_pools_is_looked_into(causal, pool):
    torch.manual_seed(0)
    model = Pooled(causal, pool)
    if pool(torch.ones(2, 3, 8)).dim() == 0:
        model.head = nn.Identity()
    before = torch.get_rng_state()
    assert is_causal(model, (IDS,), {}) is causal
    assert torch.equal(torch.get_rng_state(), before)
    assert not nn.modules.module._global_forward_hooks


def test_modules_that_see_one_token_at_a_time_are_no_proof_of_causal_attention():
    class Inlined(nn.Module):
        """Its attention runs in no module of its own, and goes both ways."""

        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(20, 8), nn.Linear(8, 24)

        def forward(self, ids):
            q, k, v = self.qkv(self.embed(ids)).chunk(3, dim=-1)
            return nn.functional.scaled_dot_product_attention(q, k, v).mean(1)

    assert is_causal(Inlined(), (IDS,), {}) is None


def test_one_module_that_sees_both_ways_is_enough():
    torch.manual_seed(0)
    model = Pooled(True)
    model.blocks[0].causal = False
    assert is_causal(model, (IDS,), {}) is False
