"""Whether rows of a batch meet in a model."""

import pytest
import torch
from torch import nn

from hotloop.probe.mixing import mixes_rows, sequence_first


class Net(nn.Module):
    """An encoder with a head on the last position."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, x, mask=None):
        return {"logits": self.head(self.encoder(x)[:, -1])}


X = torch.linspace(-1, 1, 2 * 5 * 8).reshape(2, 5, 8).square()


@pytest.mark.parametrize("batch_first", [True, False])
def test_one_changed_row_tells(batch_first):
    torch.manual_seed(0)
    model, given = Net(batch_first), X.clone()
    state = torch.get_rng_state()
    assert mixes_rows(model, (given,), {"mask": None}) is not batch_first
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(given, X)


def test_batch_norm_in_training_is_no_meeting_of_rows():
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    assert mixes_rows(model, (X[:, 0].clone(),), {}) is False


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (nn.Linear(8, 2), (torch.ones(2, 8),)),  # the rows are equal
        (nn.Linear(8, 2), (torch.ones(3, 8),)),  # there are not two
        (nn.Flatten(0), (X.clone(),)),  # no output for each row
    ],
)
def test_what_cannot_be_told_is_none(model, args):
    assert mixes_rows(model, args, {}) is None


def test_layers_that_want_the_sequence_first_are_named():
    model = nn.ModuleDict(
        {"a": nn.LSTM(2, 2), "b": nn.GRU(2, 2, batch_first=True), "c": Net(False)}
    )
    assert sequence_first(model) == ("a", "c.encoder.self_attn")
