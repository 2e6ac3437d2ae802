"""Parameters that get gradients and are in no optimizer."""

import weakref

import torch

from hotloop.observe.hooks.live_objects import LiveObject, find_left_out

AFTER = 8


def live(thing: object) -> LiveObject:
    return LiveObject(weakref.ref(thing), None)


def left_out(model: torch.nn.Module, optimizer: torch.optim.Optimizer, by_hand: bool = False):
    """Train for some updates, looking after each; return what was left out."""
    roots, optimizers = [live(model)], [live(optimizer)]
    for update in range(1, AFTER + 3):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        if by_hand:
            for parameter in model[1].parameters():
                parameter.data -= 0.1 * parameter.grad
        find_left_out(roots, optimizers, update, after=AFTER)
        model.zero_grad()
    return roots[0].left_out


def model() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))


def test_a_head_that_no_optimizer_holds_is_left_out():
    net = model()
    assert left_out(net, torch.optim.SGD(net[0].parameters(), lr=0.1)) == {
        "1.weight": 4,
        "1.bias": 1,
    }


def test_what_is_updated_by_hand_is_not():
    net = model()
    assert left_out(net, torch.optim.SGD(net[0].parameters(), lr=0.1), by_hand=True) == {}


def test_what_an_optimizer_holds_is_not():
    net = model()
    assert left_out(net, torch.optim.SGD(net.parameters(), lr=0.1)) == {}


def test_a_model_that_no_optimizer_holds_is_another_matter():
    net, other = model(), torch.nn.Linear(1, 1)
    assert left_out(net, torch.optim.SGD(other.parameters(), lr=0.1)) == {}


def test_frozen_parameters_are_not():
    net = model()
    net[1].requires_grad_(False)
    assert left_out(net, torch.optim.SGD(net[0].parameters(), lr=0.1)) == {}


def test_a_parameter_that_a_new_optimizer_takes_is_left_out_no_more():
    net = model()
    roots, first = [live(net)], torch.optim.SGD(net[0].parameters(), lr=0.1)
    for update in range(1, AFTER + 3):
        net(torch.ones(2, 3)).sum().backward()
        find_left_out(roots, [live(first)], update, after=AFTER)
    assert roots[0].left_out
    second = torch.optim.SGD(net[1].parameters(), lr=0.1)
    find_left_out(roots, [live(first), live(second)], AFTER + 3, after=AFTER)
    assert roots[0].left_out == {}
