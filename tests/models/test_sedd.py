import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hotloop.data.sampling.context_windows import Windows
from hotloop.data.sampling.diffusion_noise import Noise, Noised
from hotloop.jobs.forecast.memory_forecast import forecast, measure
from hotloop.models.sedd import ScoreEntropy, Sedd, absorbing_entropy, uniform_entropy
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.job import Job

both = pytest.mark.parametrize("transition", ["absorbing", "uniform"])
on_cpu = pytest.mark.parametrize("backend", ["auto", "flash", "math", "naive"])
ENTROPY = {"absorbing": absorbing_entropy, "uniform": uniform_entropy}
V, T = 3, 2


def tiny_p() -> Tensor:
    """A distribution over the 9 texts of two characters; no text is impossible."""
    return torch.rand(V, V, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.05


def small(transition: str = "absorbing", *, trained: bool = True, **more: float) -> Sedd:
    torch.manual_seed(0)
    model = Sedd(
        transition=transition, vocabulary=11, layers=2, heads=4, width=32, context=16, **more
    )
    if trained:  # zeros would hide what a gate or the head does
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.1)
    return model


def ids(batch: int = 3, length: int = 16, below: int = 11) -> Tensor:
    return torch.randint(below, (batch, length), generator=torch.Generator().manual_seed(1))


def levels(batch: int = 3) -> Tensor:
    return torch.linspace(0.1, 2, batch)


def noise(transition: str, **changes: float) -> Noise:
    options = {"vocabulary": V, "sigma_min": 1e-4, "sigma_max": 20.0} | changes
    return Noise(transition=transition, **options)


# The mathematics, against everything written out.


@both
@pytest.mark.parametrize("sigma", [1e-4, 0.5, 3.0, 20.0])
def test_the_score_entropy_is_zero_at_the_true_ratios_and_positive_elsewhere(
    exact, transition, sigma
):
    """For one clean text: the ratios of p(. | clean) by the matrix exponential."""
    at = torch.tensor([sigma], dtype=torch.float64)
    kernel = exact(tiny_p(), transition).kernels(at)[0]
    states = len(kernel)
    for clean in range(V):
        for here in range(states):
            if kernel[clean, here] == 0:
                continue
            ratios = (kernel[clean, :V] / kernel[clean, here]).log().clamp(min=-60)
            args = torch.tensor([[here]]), torch.tensor([[clean]]), at
            found = ENTROPY[transition](ratios[None, None], *args)
            assert found.item() == pytest.approx(0, abs=1e-9)
            worse = ratios + torch.tensor([0.3, -0.2, 0.1])
            expected = _entropy_by_hand(worse.exp(), kernel, clean, here, transition)
            if transition == "uniform":
                worse[here] = 0  # the model's ratio of what is there is 1
            found = ENTROPY[transition](worse[None, None], *args)
            assert found.item() == pytest.approx(expected, rel=1e-6, abs=1e-12)


def _entropy_by_hand(s: Tensor, kernel: Tensor, clean: int, here: int, transition: str) -> float:
    """Sum over y of Q(here, y) (s - r log s + r (log r - 1)), r = p(y | clean) / p(here | ...)."""
    total = 0.0
    for y in range(V):
        rate = {"uniform": 1 / V, "absorbing": float(here == V)}[transition]
        r = (kernel[clean, y] / kernel[clean, here]).item()
        if y != here:
            constant = r * (math.log(r) - 1) if r > 0 else 0.0
            total += rate * (s[y].item() - r * math.log(s[y]) + constant)
    return total


def bound(scores: nn.Module, truth: nn.Module, made: Noise, points: int = 120) -> float:
    """The bound in nats per text: every clean text, every noised one, and a sum over times."""
    states = V + (made.transition == "absorbing")
    noised = torch.cartesian_prod(torch.arange(states), torch.arange(states))
    clean, total = truth.texts.repeat_interleave(len(noised), 0), 0.0
    places = (np.arange(points) + 0.5) / points
    for level, share in zip(*made.draw(places), strict=True):
        sigma = torch.full((len(noised),), level, dtype=torch.float64)
        likely = truth.likely(noised, sigma).prod(-1).T  # [texts, noised]
        entropy = ENTROPY[made.transition](
            scores(noised, sigma).repeat(len(truth.texts), 1, 1),
            noised.repeat(len(truth.texts), 1),
            clean,
            sigma.repeat(len(truth.texts)),
        )
        weight = truth.p.flatten()[:, None] * likely
        total += share / points * float(weight.flatten() @ entropy.sum(1))
    return total + T * made.ends()


@both
def test_the_bound_meets_the_entropy_of_the_data_at_the_true_score_and_only_there(
    exact, transition
):
    p, made = tiny_p(), noise(transition, sigma_min=1e-3, sigma_max=8.0)
    model = exact(p, transition)
    q = model.p.flatten()
    entropy = -(q @ q.log()).item()
    found = bound(model, model, made)
    # It may be above by no more than what the ends take for granted.
    assert -1e-4 < found - entropy < T * made.ends() + 1e-4
    for other in (torch.ones(V, V), p + 0.3 * torch.eye(V)):
        wrong = exact(other, transition)
        # Drawing with the scores of another distribution costs the divergence from it.
        cost = (q * (q / wrong.p.flatten()).log()).sum().item()
        assert cost > 0.01
        assert bound(wrong, model, made) - found == pytest.approx(cost, abs=2e-3)


@both
@pytest.mark.parametrize("sigma", [1e-3, 0.7, 6.0])
def test_the_expected_gradient_is_zero_at_the_true_score(exact, transition, sigma):
    model = exact(tiny_p(), transition)
    states = V + (transition == "absorbing")
    noised = torch.cartesian_prod(torch.arange(states), torch.arange(states))
    levels = torch.full((len(noised),), sigma, dtype=torch.float64)
    weight = model.likely(noised, levels).prod(-1) * model.p.flatten()  # [noised, texts]
    log_s = model(noised, levels).requires_grad_()
    total = torch.zeros(())
    for number, text in enumerate(model.texts):
        entropy = ENTROPY[transition](log_s, noised, text.expand_as(noised), levels)
        total = total + (weight[:, number] / weight.sum(1) * entropy.sum(1)).sum()
    (gradient,) = torch.autograd.grad(total, log_s)
    if transition == "uniform":  # the ratio of what is there is no output
        gradient = gradient.scatter(-1, noised[..., None], 0.0)
    assert (gradient.abs() / (1 + log_s.exp())).max() < 1e-9


@both
def test_the_loss_is_the_weighted_mean_entropy_plus_the_ends(transition):
    model = small(transition)
    noised = ids(below=11 + (transition == "absorbing"))
    tensors = {"inputs": noised, "targets": ids(), "sigma": levels(), "weight": levels() * 3}
    each = ENTROPY[transition](model(noised, levels()), noised, ids(), levels())
    expected = sum(3 * s * row.mean() for s, row in zip(levels(), each, strict=True)) / 3 + 0.25
    found = ScoreEntropy(transition=transition, ends=0.25)(model, tensors)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_overflows_at_either_end_of_the_noise(transition, dtype):
    model = small(transition)
    sigma = torch.tensor([1e-6, 1e-4, 50.0])
    noised = ids(below=11 + (transition == "absorbing"))
    tensors = {"inputs": noised, "targets": ids(), "sigma": sigma, "weight": 12 * sigma}
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        loss = ScoreEntropy(transition=transition, ends=0.0)(model, tensors)
    assert loss.dtype == torch.float32
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_ratio_that_overflows_where_no_mask_is_does_no_harm():
    log_s = torch.full((1, 2, 11), 200.0)
    log_s[0, 1] = 0.0
    log_s.requires_grad_()
    noised, clean = torch.tensor([[3, 11]]), torch.tensor([[3, 4]])
    entropy = absorbing_entropy(log_s, noised, clean, torch.tensor([1.0]))
    entropy.sum().backward()
    assert entropy[0, 0] == 0
    assert entropy.isfinite().all()
    assert log_s.grad.isfinite().all()


# The network.


@both
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_an_untrained_model_guesses_evenly(transition, dropout):
    """Its bound is log V, but for what is left to chance in these samples."""
    made = noise(transition, vocabulary=11)
    source = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (50_000,), generator=source).numpy().astype("<u2")
    windows = Windows(tokens, tokens_fingerprint="", context=16, seed=1, shuffle=False)
    batch = Noised(windows, noise=made, seed=1).batch(0, 0, 3000)
    model = small(transition, trained=False, dropout=dropout)
    loss = ScoreEntropy(transition=transition, ends=made.ends())
    assert loss(model, batch.tensors).item() == pytest.approx(math.log(11), rel=0.06)


@on_cpu
def test_every_back_end_computes_the_same_function_in_both_directions(backend):
    plain, other = small(), small()
    for mine, its in zip(plain.blocks, other.blocks, strict=True):
        mine.attention.attention, its.attention.attention = "naive", backend
    before, sigma = ids(), levels()
    assert torch.allclose(plain(before, sigma), other(before, sigma), atol=1e-4)
    for at in (0, 7, 15):
        after = before.clone()
        after[:, at] = (after[:, at] + 1) % 11
        moved = (other(before, sigma) - other(after, sigma)).abs().amax(-1)
        assert (moved > 0).all(), "every place sees every other"


def test_the_noise_level_conditions_every_sample_by_itself():
    model, sigma = small(), levels()
    whole = model(ids(), sigma) + sigma.expm1().log()[:, None, None]
    for row in range(3):
        alone = model(ids()[row : row + 1], sigma[row : row + 1])
        alone += sigma[row].expm1().log()
        assert torch.allclose(alone[0], whole[row], atol=1e-4)
    other = model(ids(), sigma.flip(0)) + sigma.flip(0).expm1().log()[:, None, None]
    assert not torch.allclose(other[0], whole[0], atol=1e-2)


def test_the_ratio_of_what_is_there_is_one_under_uniform_noise():
    log_s = small("uniform")(ids(), levels())
    assert log_s.gather(-1, ids()[..., None]).abs().max() == 0


def test_dropout_stands_only_in_training():
    model = small(dropout=0.5)
    assert not torch.equal(model(ids(), levels()), model(ids(), levels()))
    model.eval()
    assert torch.equal(model(ids(), levels()), model(ids(), levels()))


def test_the_mask_has_an_embedding_and_no_output():
    model = small()
    assert model.embed.weight.shape == (12, 32)
    assert model(ids(below=12), levels()).shape == (3, 16, 11)
    assert small("uniform").embed.weight.shape == (11, 32)
    assert all("_TT" not in name and "_TK" not in name for name in model.state_dict())


# What the engine does with it.


def job(transition: str) -> Job:
    tokens = (torch.arange(4000) * 7 % 11).numpy().astype("<u2")
    windows = Windows(tokens, tokens_fingerprint="", context=16, seed=1, shuffle=True)
    samples = Noised(windows, noise=noise(transition, vocabulary=11), seed=1)
    return Job(
        name="sedd",
        model=lambda: small(transition, trained=False),
        loss=ScoreEntropy(transition=transition, ends=0.0),
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=samples,
        valid=samples,
        seed=1,
    )


@pytest.mark.parametrize(
    ("transition", "precision"), [("absorbing", "fp32"), ("absorbing", "bf16"), ("uniform", "fp32")]
)
def test_its_memory_is_forecast_as_measured(transition, precision):
    fake = forecast(job(transition), micro_batch=8, precision=precision)
    real = measure(job(transition), micro_batch=8, precision=precision)
    assert fake.peak_bytes == pytest.approx(real.peak_bytes, rel=0.02)
    assert fake.flops == real.flops


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled_per_block_it_is_the_same_function_in_one_graph():
    plain, compiled = small(), small()
    for block in compiled.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
    tensors = {"inputs": ids(), "targets": ids(), "sigma": levels(), "weight": levels()}
    loss = ScoreEntropy(transition="absorbing", ends=0.0)
    losses = [loss(model, tensors) for model in (plain, compiled)]
    for one in losses:
        one.backward()
    torch._dynamo.reset()
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)
    for mine, its in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert torch.allclose(mine.grad, its.grad, rtol=1e-4, atol=1e-6)
