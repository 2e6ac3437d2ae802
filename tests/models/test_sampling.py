import pytest
import torch
from torch import Tensor, nn

from hotloop.models.gpt import Gpt
from hotloop.models.sampling import UNKNOWN, sample

CONTEXT = 8


@pytest.fixture(scope="module")
def model() -> Gpt:
    torch.manual_seed(0)
    return Gpt(vocabulary=9, layers=1, heads=2, width=16, context=CONTEXT).eval()


class Fixed(nn.Module):
    """Answers the same logits everywhere and keeps the lengths it was asked for."""

    context = CONTEXT

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits, self.lengths = torch.tensor(logits), []

    def forward(self, ids: Tensor) -> Tensor:
        self.lengths.append(ids.shape[1])
        return self.logits.expand(*ids.shape, -1).clone()


def draw(model: nn.Module, start: list[int], **changes: float) -> Tensor:
    options = {"samples": 3, "length": 20, "temperature": 1.0, "seed": 7} | changes
    return sample(model, torch.tensor(start), **options)  # type: ignore[arg-type]


def test_samples_have_the_length_asked_for_without_the_prompt(model: Gpt) -> None:
    assert draw(model, [1, 2]).shape == (3, 20)
    assert draw(model, [1, 2], samples=1, length=1).shape == (1, 1)


def test_equal_seeds_give_equal_ids_and_others_give_others(model: Gpt) -> None:
    torch.rand(3)  # the process's own stream plays no part
    one = draw(model, [1, 2])
    torch.rand(3)
    assert torch.equal(one, draw(model, [1, 2]))
    assert not torch.equal(one, draw(model, [1, 2], seed=8))
    assert not torch.equal(one[0], one[1]), "samples of one call differ"


def test_sampling_leaves_the_random_stream_of_the_process_alone(model: Gpt) -> None:
    before = torch.get_rng_state()
    draw(model, [1, 2])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("temperature", [0.0, 0.1, 1.0, 100.0])
def test_the_unknown_character_is_never_drawn(temperature: float) -> None:
    likely = Fixed(50.0, 1.0, 1.0)  # <unk> is by far the likeliest
    drawn = draw(likely, [1], length=200, temperature=temperature)
    assert not drawn.eq(UNKNOWN).any()


def test_temperature_0_takes_the_likeliest_whatever_the_seed(model: Gpt) -> None:
    one = draw(model, [3], temperature=0, seed=1)
    assert torch.equal(one, draw(model, [3], temperature=0, seed=2))
    assert torch.equal(one[0], one[1])
    logits = model(torch.tensor([[3]]))[0, -1]
    logits[UNKNOWN] = -torch.inf
    assert one[0, 0] == logits.argmax()


@pytest.mark.parametrize("temperature", [1e-320, 1e-45, 2e-38, 1e-37, 1e-30, 1e-6])
def test_a_tiny_temperature_is_as_good_as_0(temperature: float) -> None:
    drawn = draw(Fixed(9.0, -80.0, 88.0, 87.0), [1], temperature=temperature)
    assert drawn.eq(2).all()


def test_draws_follow_the_probabilities_and_the_temperature_spreads_them() -> None:
    model = Fixed(0.0, 0.0, torch.tensor(3.0).log().item())  # 1 : 3
    share = draw(model, [1], samples=4000, length=1).eq(2).float().mean().item()
    assert share == pytest.approx(0.75, abs=0.03)
    hot = draw(model, [1], samples=4000, length=1, temperature=50.0).eq(2).float().mean().item()
    assert hot == pytest.approx(0.5, abs=0.03)


def test_a_prompt_longer_than_the_context_is_seen_by_its_end(model: Gpt) -> None:
    long = [1, 2, 3, 4, 5, 6, 7, 8] * 3
    other = [5, 5, 5, *long[3:]]
    assert torch.equal(draw(model, long), draw(model, other))
    fixed = Fixed(0.0, 1.0)
    draw(fixed, long, length=3)
    draw(fixed, [1], length=CONTEXT + 2)
    assert fixed.lengths == [CONTEXT] * 3 + [*range(1, CONTEXT + 1), CONTEXT, CONTEXT]
