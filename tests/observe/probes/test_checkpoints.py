import io

import pytest
import torch

from hotloop.observe.probes.checkpoints import content, path_of

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


def test_what_is_written_to_memory_has_no_path(tmp_path):
    assert path_of(io.BytesIO()) is None
    with (tmp_path / "last.pt").open("wb") as file:
        assert path_of(file) == path_of(tmp_path / "last.pt") == str(tmp_path / "last.pt")
