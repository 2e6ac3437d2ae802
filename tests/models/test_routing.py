"""The router: its shares, and each term of its loss against its formula written out."""

import math

import pytest
import torch
from torch.nn import functional

from hotloop.core.errors import ConfigError
from hotloop.models.routing import ROUTINGS, Router, RouterLoss, annealed, shares_of

S, D, K = 12, 8, 3
NOTHING = {"balance": 0, "efficiency": 0, "consistency": 0, "entropy": 0, "temperature": 0}


@pytest.fixture
def features():
    torch.manual_seed(0)
    return torch.randn(S, D)


@pytest.fixture
def router():
    torch.manual_seed(1)
    made = Router(D, K, width=16)
    torch.nn.init.normal_(made.out.weight)
    return made


def term(router, features, name, weight=0.5, **more):
    loss = RouterLoss(**{**NOTHING, name: weight, **more})
    found = loss(router, features, torch.arange(S) % K, temperature=2.0)
    assert set(found) == {"right", name}
    return found[name].detach().item() / weight


def beliefs(router, features):
    return (router(features).detach() / 2.0).softmax(1)


def test_at_first_every_task_is_as_likely(features):
    p = Router(D, K)(features).softmax(1)
    assert torch.equal(p, torch.full((S, K), 1 / K))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_shares_add_up_to_one(routing, router, features):
    shares = shares_of(router(features), routing, temperature=0.7)
    assert shares.sum(1).allclose(torch.ones(S), atol=1e-6)
    assert shares.min() >= 0


@pytest.mark.parametrize("routing", ["hard", "gumbel"])
def test_a_row_takes_one_adapter_and_no_other_exactly(routing, router, features):
    shares = shares_of(router(features), routing, temperature=0.3)
    assert set(shares.detach().unique().tolist()) == {0.0, 1.0}


def test_hard_shares_are_the_likeliest_and_need_no_gradient(router, features):
    logits = router(features)
    shares = shares_of(logits, "hard")
    assert torch.equal(shares.argmax(1), logits.argmax(1))
    assert not shares.requires_grad


@pytest.mark.parametrize("routing", ["soft", "gumbel"])
def test_the_gradient_of_shares_reaches_the_router(routing, router, features):
    (shares_of(router(features), routing) * torch.randn(S, K)).sum().backward()
    assert router.hidden.weight.grad.abs().max() > 0


def test_gumbel_draws_tasks_as_often_as_they_are_likely():
    torch.manual_seed(2)
    logits = torch.tensor([[1.0, 0.0, -1.0]]).expand(30_000, 3)
    often = shares_of(logits, "gumbel", temperature=0.5).mean(0)
    assert (often - logits[0].softmax(0)).abs().max() < 0.012  # 4 standard errors


def test_a_low_temperature_makes_soft_shares_hard(router, features):
    logits = router(features)
    cold = shares_of(logits, "soft", temperature=1e-3)
    assert (cold - shares_of(logits, "hard")).abs().max() < 1e-3


def test_balance_is_least_where_all_are_used_alike(router, features):
    p = beliefs(router, features)
    used = functional.one_hot(p.argmax(1), K).float().mean(0)
    assert term(router, features, "balance") == pytest.approx(
        K * sum(f * m for f, m in zip(used.tolist(), p.mean(0).tolist(), strict=True)) - 1, abs=1e-6
    )
    even = Router(K, K, width=4)
    even.forward = lambda rows: 50.0 * rows  # sure of each, and each as often
    rows = torch.eye(K).repeat(S // K, 1)
    found = RouterLoss(**{**NOTHING, "balance": 1.0})(even, rows, torch.arange(S) % K)
    assert found["balance"].item() == pytest.approx(0, abs=1e-6)
    one = RouterLoss(**{**NOTHING, "balance": 1.0})(
        even, rows[:1].repeat(S, 1), torch.zeros(S).long()
    )
    assert one["balance"].item() == pytest.approx(K - 1, abs=1e-6)


def test_efficiency_counts_the_adapters_beyond_one(router, features):
    p = beliefs(router, features)
    counted = [1 / sum(each**2 for each in row) - 1 for row in p.tolist()]
    assert term(router, features, "efficiency") == pytest.approx(sum(counted) / S, rel=1e-5)


def test_entropy_is_in_nats(router, features):
    p = beliefs(router, features)
    nats = [-sum(each * math.log(each) for each in row) for row in p.tolist()]
    assert term(router, features, "entropy") == pytest.approx(sum(nats) / S, rel=1e-5)


def test_the_temperature_term_holds_the_logits(router, features):
    z = [
        math.log(sum(math.exp(each) for each in row)) for row in router(features).detach().tolist()
    ]
    assert term(router, features, "temperature") == pytest.approx(
        sum(each**2 for each in z) / S, rel=1e-5
    )


def test_consistency_is_nothing_without_noise_and_grows_with_it(router, features):
    def apart(noise):
        torch.manual_seed(5)
        return term(router, features, "consistency", noise=noise)

    assert apart(0.0) == pytest.approx(0, abs=1e-6)
    assert 0 < apart(0.1) < apart(1.0)


def test_a_weight_of_zero_leaves_its_term_out(router, features):
    loss = RouterLoss(**NOTHING)
    tasks = torch.arange(S) % K
    found = loss(router, features, tasks)
    assert set(found) == {"right"}
    expected = functional.cross_entropy(router(features), tasks)
    assert torch.equal(found["right"], expected)


def test_a_temperature_is_annealed_geometrically():
    progress = torch.tensor([-1, 0, 0.5, 1, 2])
    assert annealed(4.0, 1.0, progress).tolist() == pytest.approx([4, 4, 2, 1, 1])


def test_what_cannot_be_is_refused(router, features):
    with pytest.raises(ConfigError, match="did you mean gumbel"):
        shares_of(router(features), "gumble")
    for temperature in (0.0, -1.0, math.inf):
        with pytest.raises(ConfigError, match="above 0"):
            shares_of(router(features), "soft", temperature=temperature)
