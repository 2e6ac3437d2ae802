"""Frozen matrices in 16 bits: what is computed with them, and which are left alone."""

import copy

import pytest
import torch
from tests.golden import tiny_models
from torch import nn

from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.in_16_bits import LowEmbedding, LowLinear, lower, lowered

LOW = (torch.bfloat16, torch.float16)


class Tied(nn.Module):
    """An embedding, two linear layers, and a head that shares the embedding's weight."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 40, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        return self.head(self.norm(x + self.down(self.up(x).relu())))


def model(kind, dtype=None, stored=None, *, seed=0):
    torch.manual_seed(seed)
    made = Tied()
    if stored is not None:  # as if its file were in that dtype
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.copy_(parameter.to(stored))
    if dtype is not None:
        lower(made, dtype, stored=stored, is_filled=True)
    attach(made, AdapterConfig(kind=kind, rank=4))
    for name, parameter in made.named_parameters():
        if parameter.requires_grad and "lora_B" in name:
            nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(1))
    return made


def learned(made, dtype):
    """Return the loss under autocast, and the gradient of each trained parameter."""
    ids = torch.arange(30).view(2, 15) % 40
    with torch.autocast("cpu", dtype):
        loss = nn.functional.cross_entropy(made(ids).float().flatten(0, 1), ids.flatten())
    loss.backward()
    named = made.named_parameters()
    return loss, {name: p.grad for name, p in named if p.grad is not None}


@pytest.mark.parametrize("stored", [None, *LOW])
@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("kind", ["lora", "ia3"])
def test_losses_and_gradients_are_those_of_float32_weights_bit_for_bit(kind, dtype, stored):
    whole, low = (learned(model(kind, into, stored), dtype) for into in (None, dtype))
    assert torch.equal(whole[0], low[0])
    assert whole[1].keys() == low[1].keys()
    assert all(torch.equal(gradient, low[1][name]) for name, gradient in whole[1].items())


@pytest.mark.parametrize("dtype", LOW)
def test_dora_is_the_same_where_the_file_has_that_dtype(dtype):
    whole, low = (learned(model("dora", into, dtype), dtype) for into in (None, dtype))
    assert torch.equal(whole[0], low[0])
    assert all(torch.equal(gradient, low[1][name]) for name, gradient in whole[1].items())


def test_what_shares_an_embeddings_weight_keeps_its_digits():
    """The embedding is looked up in float32, so it may only lose what its file does not have."""
    float32, bfloat16 = model("lora", torch.float16), model("lora", torch.float16, torch.bfloat16)
    assert type(float32.words) is nn.Embedding
    assert float32.words.weight.dtype == torch.float32
    assert type(bfloat16.words) is LowEmbedding
    assert bfloat16.words.weight.dtype == torch.bfloat16
    assert bfloat16.words(torch.tensor([3])).dtype == torch.float32
    assert bfloat16.head.weight is bfloat16.words.weight
    assert set(lowered(float32)) == {"up.weight", "down.weight"}
    assert set(lowered(bfloat16)) == {"up.weight", "down.weight", "words.weight"}


def test_without_autocast_a_layer_computes_in_the_dtype_of_its_input():
    torch.manual_seed(0)
    plain = nn.Linear(8, 6)
    low = nn.Sequential(copy.deepcopy(plain))
    lower(low, torch.bfloat16, stored=None, is_filled=True)
    assert type(low[0]) is LowLinear
    x = torch.randn(3, 8)
    expected = nn.functional.linear(x, plain.weight.to(torch.bfloat16).float(), plain.bias)
    assert torch.equal(low(x), expected)


def test_subclasses_and_vectors_are_left_alone():
    class Scaled(nn.Embedding):
        """One that uses its weight in another way."""

    made = nn.Sequential(Scaled(4, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    lower(made, torch.bfloat16, stored=torch.bfloat16, is_filled=True)
    dtypes = {name: parameter.dtype for name, parameter in made.named_parameters()}
    assert {name for name, dtype in dtypes.items() if dtype == torch.bfloat16} == {"1.weight"}


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "roberta"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_pretrained_model_has_the_same_output(tmp_path, name, stored):
    """What a file holds in 16 bits is looked up without a loss; Gemma scales what it looks up."""
    import transformers

    folder = tiny_models.saved(tmp_path, name)
    if stored == torch.bfloat16:
        loaded = transformers.AutoModel.from_pretrained(folder, dtype=stored)
        loaded.save_pretrained(folder)
    ids = torch.arange(1, 13)[None]
    said = []
    for frozen in (None, torch.bfloat16):
        made = tiny_models.loaded(folder, low=frozen).requires_grad_(False)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            said.append(made({"input_ids": ids}))
        low = lowered(made)
        assert bool(low) == (frozen is not None)
        is_exact = stored == frozen and name != "gemma3"
        assert any("embed" in name for name in low) == is_exact
    assert torch.equal(*said)
