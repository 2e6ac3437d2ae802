from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hotloop.data.sampling.diffusion_noise import Noise
from hotloop.models.denoising import FREE, UNKNOWN, denoise, from_mask, from_uniform
from hotloop.models.sedd import Sedd

both = pytest.mark.parametrize("transition", ["absorbing", "uniform"])
REVERSE = {"absorbing": from_mask, "uniform": from_uniform}
V, CONTEXT = 9, 12


@pytest.fixture(scope="module")
def models() -> dict[str, Sedd]:
    """Models with random weights: a trained one's scores are no different in kind."""
    made = {}
    for transition in ("absorbing", "uniform"):
        torch.manual_seed(0)
        model = Sedd(
            transition=transition, vocabulary=V, layers=1, heads=2, width=16, context=CONTEXT
        )
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.1)
        made[transition] = model.eval()
    return made


def levels(steps: int, **of_noise: float) -> list[float]:
    options = {"vocabulary": V, "sigma_min": 1e-4, "sigma_max": 20.0} | of_noise
    return Noise(transition="absorbing", **options).levels(steps)


def draw(model: nn.Module, given: list[int] | None = None, *, steps: int = 8, **more) -> Tensor:
    window = [FREE] * CONTEXT if given is None else given
    options = {"levels": levels(steps), "samples": 3, "seed": 7} | more
    return denoise(model, torch.tensor(window), **options)


def known_p(size: int, places: int) -> Tensor:
    """A distribution in which <unk> does not occur."""
    p = torch.rand([size] * places, generator=torch.Generator().manual_seed(2)).double() ** 2
    for place in range(places):
        p.select(place, UNKNOWN).zero_()
    return p / p.sum()


@both
@pytest.mark.parametrize(("sigma", "lower"), [(20.0, 3.0), (1.0, 0.4), (0.5, 0.0), (1e-4, 0.0)])
def test_a_step_of_one_place_is_exact_by_bayes(exact, transition, sigma, lower):
    """p(y at lower | x at sigma), which is p(x | y) p(y) / p(x), for a text of one character."""
    model = exact(known_p(4, 1), transition)
    at = torch.tensor([sigma], dtype=torch.float64)
    before, after, between = (
        model.kernels(torch.tensor([s], dtype=torch.float64))[0]
        for s in (sigma, lower, sigma - lower)
    )
    p = functional.pad(model.p, (0, len(before) - 4))  # no clean text has a mask
    for x in range(len(before)):
        if (p_x := (p @ before)[x]) < 1e-12:
            continue
        expected = between[:, x] * (p @ after) / p_x
        here = torch.tensor([[x]])
        found = REVERSE[transition](model(here, at), here, sigma, lower)[0, 0]
        assert torch.allclose(found / found.sum(), expected, atol=1e-7)


@both
def test_many_steps_with_the_true_scores_draw_the_distribution(exact, transition):
    p, n = known_p(3, 3), 3000
    model = exact(p, transition)
    ids = draw(model, [FREE] * 3, levels=levels(32, sigma_max=8.0, vocabulary=3), samples=n)
    found = torch.bincount(ids @ torch.tensor([9, 3, 1]), minlength=27) / n
    expected = model.p.flatten()
    spread = (expected * (1 - expected) / n).sqrt()
    assert ((found - expected).abs() <= 5 * spread + 0.01).all()
    even = torch.full((27,), 1 / 8)
    assert (found - expected).abs().sum() < (even - expected).abs().sum() / 4


@both
def test_given_places_condition_the_rest(exact, transition):
    """A prefix and a suffix around one free place: drawn from p(middle | both)."""
    p, n = known_p(3, 3), 2000
    p[1, 1, 1] = p[2, 2, 2] = 4.0  # the middle mostly agrees with both sides
    model = exact(p, transition)
    ids = draw(model, [2, FREE, 2], levels=levels(32, sigma_max=8.0, vocabulary=3), samples=n)
    assert ids[:, [0, 2]].eq(2).all()
    found = ids[:, 1].eq(2).double().mean().item()
    expected = float(p[2, 2, 2] / p[2, :, 2].sum())
    without = float(p[:, 2].sum() / p.sum())
    assert expected - without > 0.3
    if transition == "absorbing":
        assert found == pytest.approx(expected, abs=0.05)
    else:  # the module says why it is not all of it
        assert without + 0.5 * (expected - without) < found < expected + 0.03


@both
@pytest.mark.parametrize("steps", [1, 2, 30])
def test_what_is_drawn_is_text_and_never_unknown_or_masked(models, transition, steps):
    ids = draw(models[transition], steps=steps, samples=40)
    assert ids.shape == (40, CONTEXT)
    assert ids.min() > UNKNOWN
    assert ids.max() < V


@both
def test_an_untrained_model_draws_evenly(transition):
    model = Sedd(transition=transition, vocabulary=V, layers=1, heads=2, width=16, context=CONTEXT)
    for steps in (1, 16):
        counts = torch.bincount(draw(model, steps=steps, samples=300).flatten(), minlength=V)[1:]
        mean = 300 * CONTEXT / (V - 1)
        assert ((counts - mean) ** 2 / mean).sum() < 7 + 4 * 14**0.5  # 7 degrees of freedom


@both
def test_equal_seeds_give_equal_ids_and_others_give_others(models, transition):
    model = models[transition]
    torch.rand(3)  # the process's own stream plays no part
    before = torch.get_rng_state()
    one = draw(model)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(one, draw(model))
    assert not torch.equal(one, draw(model, seed=8))
    assert not torch.equal(one[0], one[1]), "samples of one call differ"


@both
def test_given_places_are_seen_at_every_step_as_they_are(models, transition):
    given = [3, 1, *[FREE] * (CONTEXT - 3), UNKNOWN]
    seen, model = [], models[transition]
    handle = model.register_forward_pre_hook(lambda _, args: seen.append(args))
    ids = draw(model, given, steps=5)
    handle.remove()
    for rows in (ids, *(args[0] for args in seen)):
        assert rows[:, :2].eq(torch.tensor([3, 1])).all()
        assert rows[:, -1].eq(UNKNOWN).all(), "what was typed stays, also when it is <unk>"
    asked = [args[1].unique().item() for args in seen]
    assert asked == pytest.approx(levels(5)[:-1])


def test_a_drawn_character_stays_under_absorbing_noise(models):
    seen = []
    model = models["absorbing"]
    handle = model.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    seen.append(draw(model, steps=40))
    handle.remove()
    assert seen[0].eq(V).all(), "it starts with masks alone"
    for before, after in pairwise(seen):
        assert (before.eq(V) | before.eq(after)).all()


@both
@pytest.mark.parametrize("off", [300.0, -300.0])
def test_scores_that_are_far_off_break_nothing(transition, off):
    class Wrong(nn.Module):
        vocabulary, context = V, CONTEXT

        def __init__(self) -> None:
            super().__init__()
            self.transition = transition

        def forward(self, ids: Tensor, sigma: Tensor) -> Tensor:
            scores = torch.zeros(*ids.shape, V)
            scores[..., UNKNOWN], scores[..., 4] = abs(off), off
            return scores

    ids = draw(Wrong(), samples=20)
    assert ids.min() > UNKNOWN
    assert ids.max() < V


def test_progress_counts_the_steps(models):
    told = []
    draw(models["absorbing"], steps=3, progress=lambda done, whole: told.append((done, whole)))
    assert told == [(1, 3), (2, 3), (3, 3)]
