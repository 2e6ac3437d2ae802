import pytest
import torch
from torch import nn

from hotloop.techniques.on_scripts.loss_scale import GROWS_AFTER, LossScale


def a_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def scaled(net: nn.Module, scale: float = 2.0**16) -> tuple[LossScale, list[str]]:
    troubles: list[str] = []
    of = LossScale(troubles, scale)
    of.watch(net.parameters())
    return of, troubles


def gradients(net: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in net.parameters()]


def test_gradients_and_their_sums_over_micro_batches_are_bit_for_bit_the_unscaled_ones() -> None:
    x, plain, net = torch.randn(6, 4), a_net(), a_net()
    scale, _ = scaled(net)
    for batch in x.split(2):
        plain(batch).mean().backward()
        scale(lambda loss: loss.backward(), net(batch).mean())
    assert all(map(torch.equal, gradients(net), gradients(plain)))


def step(net: nn.Module, scale: LossScale, optimizer: torch.optim.Optimizer, x) -> None:
    optimizer.zero_grad()
    scale(lambda loss: loss.backward(), net(x).mean())
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scale.before(optimizer)
    optimizer.step()
    scale.after(optimizer)


def test_a_step_that_overflows_moves_nothing_and_halves_the_scale() -> None:
    net = a_net()
    scale, troubles = scaled(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    step(net, scale, optimizer, torch.randn(2, 4))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    step(net, scale, optimizer, torch.full((2, 4), float("inf")))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert scale.scale == 2.0**15
    assert len(troubles) == 1
    assert all(p.grad is not None and not p.grad.any() for p in net.parameters())
    step(net, scale, optimizer, torch.randn(2, 4))
    assert not torch.equal(net[0].weight, before["0.weight"])


def test_a_window_with_one_bad_micro_batch_is_left_out_whole() -> None:
    net = a_net()
    scale, _ = scaled(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net[0].weight.clone()
    for x in (torch.full((2, 4), float("inf")), torch.randn(2, 4)):
        scale(lambda loss: loss.backward(), net(x).mean())
    scale.before(optimizer)
    optimizer.step()
    scale.after(optimizer)
    assert torch.equal(net[0].weight, before)


def test_the_scale_grows_after_many_good_steps_and_stays_at_one_in_the_worst_case() -> None:
    net = a_net()
    scale, troubles = scaled(net, 2.0)
    for _ in range(GROWS_AFTER):
        scale.after(None)
    assert scale.scale == 4.0
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        step(net, scale, optimizer, torch.full((2, 4), float("nan")))
    assert scale.scale == 1.0
    assert "at the least scale" in troubles[-1]


def test_what_is_no_scalar_runs_as_it_is() -> None:
    net, seen = a_net(), []
    scale, _ = scaled(net)
    loss = net(torch.randn(3, 4))
    scale(seen.append, loss)
    assert seen == [loss] or seen[0] is loss


@pytest.mark.parametrize("wrap", [list, tuple])
def test_a_loss_in_a_list_is_scaled_as_well(wrap) -> None:
    net, plain = a_net(), a_net()
    scale, _ = scaled(net)
    x = torch.randn(2, 4)
    plain(x).mean().backward()
    scale(torch.autograd.backward, wrap([net(x).mean()]))
    assert all(map(torch.equal, gradients(net), gradients(plain)))
