import math

import pytest
import torch

from hotloop.core.errors import ConfigError
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.char_lm.config import CharLmConfig
from hotloop.recipes.char_lm.recipe import build_model

on_cpu = pytest.mark.parametrize("backend", ["auto", "flash", "math", "naive"])
VOCABULARY = 66  # Tiny Shakespeare's 65 characters and <unk>


def small(backend: str = "auto", *, heads: int = 4, **more: float) -> Gpt:
    torch.manual_seed(0)
    model = Gpt(vocabulary=11, layers=2, heads=heads, width=32, context=16, **more)
    for block in model.blocks:
        block.attention.attention = backend
    return model


def ids(batch: int = 3, length: int = 16) -> torch.Tensor:
    return torch.randint(11, (batch, length), generator=torch.Generator().manual_seed(1))


def test_the_default_model_has_as_many_parameters_as_it_says() -> None:
    with torch.device("meta"):
        model = build_model(CharLmConfig(), VOCABULARY)
    width, layers = 384, 6
    # qkv and out: 4 D^2; the two products of the MLP: 8 D^2; two norms without bias
    expected = VOCABULARY * width + layers * (12 * width**2 + 2 * width) + width
    assert sum(parameter.numel() for parameter in model.parameters()) == expected == 10_647_168


@on_cpu
def test_a_later_token_changes_no_earlier_logit(backend: str) -> None:
    model, before = small(backend), ids()
    for at in (1, 7, 15):
        after = before.clone()
        after[:, at] = (after[:, at] + 1) % 11
        same, moved = model(before), model(after)
        assert torch.equal(same[:, :at], moved[:, :at])
        assert not torch.equal(same[:, at:], moved[:, at:])


@on_cpu
def test_every_back_end_computes_the_same_function(backend: str) -> None:
    plain, other = small("naive"), small(backend)
    assert torch.allclose(plain(ids()), other(ids()), atol=1e-5)


@on_cpu
def test_an_earlier_token_reaches_the_last_position(backend: str) -> None:
    model, before = small(backend), ids()
    after = before.clone()
    after[:, 0] = (after[:, 0] + 1) % 11
    assert not torch.equal(model(before)[:, -1], model(after)[:, -1])


@on_cpu
def test_a_prefix_shorter_than_the_context_has_the_same_logits(backend: str) -> None:
    model, whole = small(backend), ids()
    for length in (1, 5, 15):
        assert torch.allclose(model(whole[:, :length]), model(whole)[:, :length], atol=1e-5)


def test_the_order_of_tokens_matters() -> None:
    model, before = small(), ids()
    swapped = before[:, [1, 0, *range(2, 16)]]
    assert not torch.allclose(model(before)[:, -1], model(swapped)[:, -1], atol=1e-6)


def test_attention_sees_distances_and_not_positions() -> None:
    """A window of a periodic text looks the same wherever it stands, if it can see no further."""
    model = small()
    periodic = torch.tensor([[1, 2, 3, 4] * 4])
    scores = []

    def keep(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores.append(q @ k.mT)
        return v

    model.blocks[0].attention.attend = keep
    model(periodic)
    assert torch.allclose(scores[0][..., :12, :12], scores[0][..., 4:, 4:], atol=1e-5)
    assert not torch.allclose(scores[0][..., 0, 0], scores[0][..., 0, 4], atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_an_untrained_model_guesses_evenly(dropout: float) -> None:
    torch.manual_seed(0)
    model = Gpt(vocabulary=VOCABULARY, layers=6, heads=6, width=384, context=32, dropout=dropout)
    batch = torch.randint(VOCABULARY, (4, 33))
    loss = next_token_loss(model, {"inputs": batch[:, :-1], "targets": batch[:, 1:]})
    assert loss.item() == pytest.approx(math.log(VOCABULARY), abs=0.15)


def test_the_loss_is_the_mean_over_all_targets() -> None:
    model, batch = small(), ids(2, 9)
    tensors = {"inputs": batch[:, :-1], "targets": batch[:, 1:]}
    log_p = model(tensors["inputs"]).log_softmax(-1)
    by_hand = -log_p.gather(-1, tensors["targets"][..., None]).mean()
    assert next_token_loss(model, tensors).item() == pytest.approx(by_hand.item(), rel=1e-6)


def test_dropout_stands_only_in_training() -> None:
    model = small(dropout=0.5)
    assert not torch.equal(model(ids()), model(ids()))
    model.eval()
    assert torch.equal(model(ids()), model(ids()))


def test_dropout_is_the_same_function_under_every_back_end() -> None:
    drawn = []
    for backend in ("auto", "flash", "math", "naive"):
        model = small(backend, dropout=0.5)
        torch.manual_seed(3)
        drawn.append(model(ids()))
    assert all(torch.allclose(drawn[0], other, atol=1e-5) for other in drawn[1:])


def test_branches_into_the_residual_stream_start_smaller_with_depth() -> None:
    torch.manual_seed(0)
    model = Gpt(vocabulary=11, layers=8, heads=4, width=128, context=16, bias=True)
    for block in model.blocks:
        for weight in (block.attention.out.weight, block.mlp[2].weight):
            assert weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
        for weight in (block.attention.qkv.weight, block.mlp[0].weight):
            assert weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert block.attention.qkv.bias.eq(0).all()


def test_the_head_shares_the_weight_of_the_embedding() -> None:
    model = small()
    names = [name for name, _ in model.named_parameters()]
    assert [name for name in names if "embed" in name or "head" in name] == ["embed.weight"]
    assert all("_TT" not in name and "_TK" not in name for name in model.state_dict())


def test_what_cannot_be_a_head_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"width 30 is not divisible by 4 heads"):
        Gpt(vocabulary=11, layers=1, heads=4, width=30, context=16)
    with pytest.raises(ConfigError, match=r"4 heads of 3 channels in a width of 12.* even"):
        Gpt(vocabulary=11, layers=1, heads=4, width=12, context=16)
