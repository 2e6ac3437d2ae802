import io

import pytest
import torch

from hotloop.observe.probes.checkpoints import content, frozen_bytes, path_of

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


class Quantised(torch.Tensor):
    """A subclass, as libraries for 4-bit weights have."""


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_frozen_parameters_of_any_kind_are_counted_and_sparse_tensors_have_no_address():
    model = torch.nn.Linear(4, 4, bias=False)
    model.weight = torch.nn.Parameter(torch.ones(4, 4).as_subclass(Quantised), requires_grad=False)
    model.register_buffer("ring", torch.eye(4).to_sparse())
    rows = torch.eye(4).to_sparse_csr()
    assert frozen_bytes({"model": model.state_dict(), "rows": rows}, [model]) == 4 * 4 * 4
