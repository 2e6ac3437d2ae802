"""Weights that two optimizers hold and update after one backward pass."""

import pytest

SCRIPT = """
    import torch
    from torch import nn

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = {held}
            super().__init__(inner.param_groups, {{}})

        def step(self, closure=None):
            inner = self.inner
            (inner if hasattr(inner, "step") else next(iter(inner))).step()
            with torch.no_grad():
                for group in self.param_groups:
                    for weight in group["params"]:
                        weight.mul_(0.999)

    table, one, two = nn.Embedding(9, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    shared = [] if {apart} else [*table.parameters()]
    first = torch.optim.{kind}([*one.parameters(), *table.parameters()], lr=0.001)
    second = torch.optim.{kind}([*two.parameters(), *shared], lr=0.001)
    net = nn.Sequential(table, one, two)
    for step in range(30):
        x = torch.randint(9, (4,))
        {body}
"""
CLEAR = "first.zero_grad(); second.zero_grad()"
PASS = "net(x).square().mean().backward()"
BOTH = f"{CLEAR}; {PASS}; first.step(); second.step()"
IN_TURN = f"{CLEAR}; {PASS}; first.step(); {CLEAR}; {PASS}; second.step()"
LATER = f"{CLEAR}; {PASS}; (first if step < 15 else second).step()"
CLEARED = f"{CLEAR}; {PASS}; first.step(); table.weight.grad = None; second.step()"
WRAPPED = f"second = second if step else Wrapper(first); {CLEAR}; {PASS}; second.step()"


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_shared_table_is_seen_with_its_name_and_optimizers(observed, kind):
    case = observed(SCRIPT.format(kind=kind, apart=False, body=BOTH, held="inner"))
    (found,) = case.twice_updated
    assert (found.names, found.parameters) == (("Sequential.0.weight",), 72)
    assert found.updates >= 2
    assert set(found.optimizers) == {one.key for one in case.optimizers}


@pytest.mark.parametrize(
    ("body", "apart"),
    [(BOTH, True), (IN_TURN, False), (LATER, False), (CLEARED, False)],
)
def test_weights_that_are_updated_once_a_pass_are_not(observed, body, apart):
    text = SCRIPT.format(kind="Adam", apart=apart, body=body, held="inner")
    assert not observed(text).twice_updated


@pytest.mark.parametrize("held", ["inner", "[inner]"])
def test_an_optimizer_that_steps_another_one_is_not_a_second_one(observed, held):
    text = SCRIPT.format(kind="Adam", apart=True, body=WRAPPED, held=held)
    assert not observed(text).twice_updated
