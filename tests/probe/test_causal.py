"""Whether a later token changes an earlier output."""

import pytest
import torch
from torch import nn

from hotloop.probe.causal import is_causal


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
