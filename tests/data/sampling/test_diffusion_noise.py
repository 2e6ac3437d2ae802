import dataclasses
import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.sampling.context_windows import Windows
from hotloop.data.sampling.diffusion_noise import Noise, Noised

V = 5
both = pytest.mark.parametrize("transition", ["absorbing", "uniform"])


def noise(transition: str = "absorbing", **changes: float) -> Noise:
    options = {"vocabulary": V, "sigma_min": 1e-4, "sigma_max": 20.0} | changes
    return Noise(transition=transition, **options)


def windows(length: int = 200, *, context: int = 7, seed: int = 1, shuffle: bool = True) -> Windows:
    tokens = (np.arange(length) * 7 % 11 % V).astype("<u2")
    return Windows(tokens, tokens_fingerprint="abc", context=context, seed=seed, shuffle=shuffle)


def noised(transition: str = "absorbing", *, seed: int = 1, **of_windows: int) -> Noised:
    return Noised(windows(**of_windows), noise=noise(transition), seed=seed)


def rates(transition: str) -> torch.Tensor:
    """Q of dp/dsigma = Q p: columns sum to 0. The paper's uniform Q is V times this one."""
    if transition == "uniform":
        return torch.full((V, V), 1 / V, dtype=torch.float64) - torch.eye(V)
    matrix = -torch.eye(V + 1, dtype=torch.float64)
    matrix[V] += 1
    return matrix


def kernel(transition: str, sigma: float) -> np.ndarray:
    """p(y | x) in [y, x], by brute force."""
    return torch.matrix_exp(sigma * rates(transition)).numpy()


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q), 0)))


def test_the_schedule_is_geometric():
    sigma = noise().sigma(np.linspace(0, 1, 9))
    assert (sigma[0], sigma[-1]) == pytest.approx((1e-4, 20.0))
    assert np.allclose(np.diff(np.log(sigma)), math.log(2e5) / 8)


@both
@pytest.mark.parametrize(("low", "high"), [(1e-4, 20.0), (1e-8, 50.0)])
def test_levels_are_drawn_from_the_whole_range_and_weigh_their_density(transition, low, high):
    made = noise(transition, sigma_min=low, sigma_max=high)
    ends, _ = made.draw(np.array([0.0, 1.0]))
    assert ends == pytest.approx([low, high], rel=1e-6)
    _, last = made.draw(np.array([1 - 2.0**-53]))
    assert np.isfinite(last.astype(np.float32)).all()
    places = np.linspace(0.01, 0.99, 9)
    slope = (made.draw(places + 1e-6)[0] - made.draw(places - 1e-6)[0]) / 2e-6
    assert np.allclose(made.draw(places)[1], slope, rtol=1e-4)


def test_levels_of_masks_are_drawn_where_the_bound_varies_least():
    """Masks of equal cost: against even times of the schedule, and against two other densities."""

    def second_moment(hit: np.ndarray, weight: np.ndarray) -> float:
        """Of weight x (masked?) / (exp(sigma) - 1), whose mean is 1."""
        each = weight * (1 - hit) / hit
        assert (each * hit).mean() == pytest.approx(1, abs=0.01)
        return float((each**2 * hit).mean())

    places = (np.arange(200_000) + 0.5) / 200_000
    sigma, weight = noise().draw(places)
    drawn = second_moment(-np.expm1(-sigma), weight)
    assert drawn == pytest.approx(4, rel=0.05)
    sigma = noise().sigma(places)
    assert second_moment(-np.expm1(-sigma), sigma * math.log(2e5)) > 2 * drawn
    for power in (1.5, 3.0):  # hit = place^power
        hit = np.maximum(places, 1e-3) ** power
        assert second_moment(hit, power * hit / places / (1 - hit)) > drawn


def test_denoising_goes_down_the_schedule_to_nothing():
    levels = noise().levels(4)
    assert levels == pytest.approx([20.0, *(20 * 2e5 ** -(k / 4) for k in (1, 2, 3)), 0.0])
    assert noise().levels(1) == [20.0, 0.0]


@both
@pytest.mark.parametrize("sigma", [1e-4, 0.3, 1.0, 20.0])
def test_corruption_is_the_matrix_exponential_of_the_rates(transition, sigma):
    """Chances of an even grid hit each id as often as the kernel says, to within the grid."""
    n = 1 << 20
    for clean in (0, 3):
        rows = np.full((1, n), clean)
        chance = np.arange(n)[None] / n
        got = noise(transition).corrupt(rows, np.array([sigma]), chance)
        share = np.bincount(got[0], minlength=V + (transition == "absorbing")) / n
        assert np.allclose(share, kernel(transition, sigma)[:, clean], atol=2 / n)


@both
def test_what_the_ends_cost_by_brute_force(transition):
    made = noise(transition, sigma_min=0.01, sigma_max=5.0)
    first, last = kernel(transition, 0.01)[:, 0], kernel(transition, 5.0)[:, 0]
    if transition == "absorbing":
        guess = first[V] * math.log(V)  # a mask is guessed evenly, the rest is known
        prior = np.array([math.exp(-5) / V] * V + [1 - math.exp(-5)])
    else:
        guess = -first[0] * math.log(first[0]) - (1 - first[0]) * math.log(first[1])
        prior = np.full(V, 1 / V)
    assert made.ends() == pytest.approx(guess + kl(last, prior), rel=1e-9)
    assert noise(transition).ends() < 0.002, "SEDD's range leaves next to nothing"


@both
def test_a_batch_is_the_clean_text_and_its_noised_copy(transition):
    samples, clean = noised(transition, context=64, length=6500), windows(context=64, length=6500)
    batch = samples.batch(0, 3, 40)
    tensors = batch.tensors
    assert (batch.samples, batch.tokens, batch.targets) == (40, 40 * 64, 40 * 64)
    assert torch.equal(tensors["targets"], clean.batch(0, 3, 40).tensors["targets"])
    assert samples.ids(0, 3, 40).tolist() == clean.ids(0, 3, 40).tolist()
    assert len(samples) == len(clean)
    changed = tensors["inputs"] != tensors["targets"]
    if transition == "absorbing":
        assert torch.equal(changed, tensors["inputs"] == V)
    else:
        assert tensors["inputs"].max() < V
    hit = -torch.expm1(-tensors["sigma"].double()) * (1 if transition == "absorbing" else 1 - 1 / V)
    spread = (hit * (1 - hit) / 64).sum().sqrt()
    assert abs(changed.double().mean(1).sum() - hit.sum()) < 4 * spread
    kinds = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    assert kinds["inputs"] == kinds["targets"] == (torch.int64, (40, 64))
    assert kinds["sigma"] == kinds["weight"] == (torch.float32, (40,))


def test_the_levels_of_a_batch_are_spread_evenly():
    def places(transition: str) -> np.ndarray:
        batch = noised(transition, length=8000).batch(2, 100, 50)
        sigma = batch.tensors["sigma"].double().numpy()
        if transition == "uniform":
            return np.log(sigma / 1e-4) / math.log(2e5)
        return (np.sqrt(-np.expm1(-sigma)) - 0.01) / 0.99

    for found in map(np.sort, (places("absorbing"), places("uniform"))):
        assert np.diff(np.concatenate((found, found[:1] + 1))).max() < 2.62 / 50


@given(
    data=st.data(), epoch=st.integers(0, 3), transition=st.sampled_from(["absorbing", "uniform"])
)
@settings(max_examples=50)
def test_any_cut_of_an_epoch_gives_the_same_noise(data, epoch, transition):
    samples = noised(transition)
    whole, at, parts = samples.batch(epoch, 0, len(samples)).tensors, 0, []
    while at < len(samples):
        count = data.draw(st.integers(1, len(samples) - at))
        parts.append(noised(transition).batch(epoch, at, count).tensors)
        at += count
    for name, expected in whole.items():
        assert torch.equal(torch.cat([part[name] for part in parts]), expected)


def test_noise_is_another_in_each_epoch_and_for_each_seed_and_the_same_in_each_validation():
    def first(epoch: int, **changes: int) -> torch.Tensor:
        return noised(shuffle=False, length=2000, **changes).batch(epoch, 0, 50).tensors["inputs"]

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))
    assert not torch.equal(first(0), first(0, seed=2))


def test_golden_noise_never_changes():
    assert noised().batch(1, 4, 3).tensors["inputs"].tolist() == [
        [2, 5, 5, 5, 5, 5, 5],
        [1, 3, 4, 0, 2, 5, 5],
        [0, 2, 3, 0, 1, 2, 4],
    ]
    assert noised("uniform").batch(1, 4, 3).tensors["inputs"].tolist() == [
        [4, 2, 0, 2, 1, 2, 1],
        [1, 3, 4, 0, 2, 1, 0],
        [0, 2, 3, 0, 1, 2, 4],
    ]


def test_what_decides_a_sample_is_in_the_fingerprint():
    one = noised()
    others = [noised("uniform"), noised(seed=2), noised(context=8)]
    others += [
        Noised(windows(), noise=dataclasses.replace(one.noise, **{name: value}), seed=1)
        for name, value in (("sigma_min", 1e-3), ("sigma_max", 19.0), ("vocabulary", V + 1))
    ]
    assert len({samples.fingerprint for samples in (one, *others)}) == 1 + len(others)
    assert one.fingerprint.startswith(windows().fingerprint)


def test_noise_is_fast_enough_for_no_loader():
    """0.5 ms were measured; this only catches a loop over characters on a busy machine."""
    samples = noised(length=70_000, context=256)
    samples.batch(0, 0, 64)
    began = time.process_time()
    for _ in range(5):
        samples.batch(0, 0, 64)
    assert (time.process_time() - began) / 5 < 0.05
