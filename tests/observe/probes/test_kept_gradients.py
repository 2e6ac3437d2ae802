"""Gradients that are never cleared, beside accumulated ones and those of a second optimizer."""

import pytest

SCRIPT = """
    import torch
    from torch import nn

    one, two = nn.Linear(8, 8), nn.Linear(8, 1)
    first = torch.optim.{kind}(one.parameters(), lr=0.001)
    second = torch.optim.{kind}(two.parameters(), lr=0.001) if {several} else None
    for step in range(30):
        x = torch.randn(4, 8)
        {body}
"""
PLAIN = "one(x).square().mean().backward(); first.step()"
CLEARED = f"first.zero_grad(); {PLAIN}"
TO_ZERO = f"first.zero_grad(set_to_none=False); {PLAIN}"
BY_HAND = f"{PLAIN}; [setattr(p, 'grad', None) for p in one.parameters()]"
ACCUMULATED = "first.zero_grad(); [one(x).mean().backward() for _ in range(3)]; first.step()"
SET_BY_HAND = (
    "[p.grad.copy_(g) if p.grad is not None else setattr(p, 'grad', g) for p, g in zip("
    "one.parameters(), torch.autograd.grad(one(x).mean(), list(one.parameters())))]; first.step()"
)
IN_TURN = (
    "first.zero_grad(); two(one(x)).mean().backward(); first.step(); "
    "second.zero_grad(); two(one(x)).square().mean().backward(); second.step()"
)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(
    ("body", "share"),
    [
        (PLAIN, 1.0),
        (CLEARED, 0.0),
        (TO_ZERO, 0.0),
        (BY_HAND, 0.0),
        (ACCUMULATED, 0.0),
        (SET_BY_HAND, None),
    ],
)
def test_what_the_pass_before_an_update_finds_is_seen(observed, kind, body, share):
    case = observed(SCRIPT.format(kind=kind, several=False, body=body))
    assert case.steps.kept_gradients == share


TWICE = f"{CLEARED}; first.step()"
BOTH = (
    "first.zero_grad(); second.zero_grad(); two(one(x)).mean().backward(); first.step(); "
    "second.step()"
)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(
    ("body", "share"), [(TWICE, 0.6), (CLEARED, 0.0), (PLAIN, 0.0), (ACCUMULATED, 0.0)]
)
def test_an_update_without_a_new_pass_is_seen(observed, kind, body, share):
    case = observed(SCRIPT.format(kind=kind, several=False, body=body))
    assert case.steps.made_again == share
    assert case.steps.again_looks == 5
    assert (case.steps.again_place is not None) == (share > 0)


@pytest.mark.parametrize("body", [BOTH, IN_TURN])
def test_two_optimizers_after_one_pass_make_no_update_again(observed, body):
    assert observed(SCRIPT.format(kind="Adam", several=True, body=body)).steps.made_again == 0.0


def test_optimizers_that_take_turns_clear_their_own(observed):
    case = observed(SCRIPT.format(kind="Adam", several=True, body=IN_TURN))
    assert case.steps.kept_gradients == 0.0
