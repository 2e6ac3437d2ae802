import pytest
import torch

from hotloop.probe.saves import content

MODEL = torch.nn.Linear(2, 2)
ADAM = torch.optim.AdamW(MODEL.parameters())


@pytest.mark.parametrize(
    ("thing", "kinds"),
    [
        (MODEL, ("model",)),
        (MODEL.state_dict(), ("model",)),
        (ADAM.state_dict(), ("optimizer",)),
        ({"net": MODEL.state_dict(), "optim": ADAM.state_dict()}, ("model", "optimizer")),
        ({"o": ADAM.state_dict()}, ("optimizer",)),
        ({"model_state": {}, "lr_sched": {}, "grad_scaler": {}}, ("model", "scaler", "scheduler")),
        ({"epoch": 3, "rng_state": None, "args": 1}, ("epoch", "other", "rng")),
        ([1, 2], ("other",)),
        ({}, ()),
    ],
)
def test_the_kinds_of_what_is_saved(thing, kinds):
    assert content(thing) == kinds
