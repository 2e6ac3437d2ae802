"""Whether rows of a batch meet in a model."""

import pytest
import torch
from torch import nn

from hotloop.observe.probes.row_mixing import mixes_rows, sequence_first


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


class Summed(Net):
    """The same, and it returns its loss alone."""

    def forward(self, x, target):
        return nn.functional.mse_loss(super().forward(x)["logits"], target)


class Recurrent(nn.Module):
    """Its layer gets the sequence first, as it wants it, or the rows; it returns its loss alone."""

    def __init__(self, turned):
        super().__init__()
        self.turned, self.layer = turned, nn.GRU(8, 4, bidirectional=True)

    def forward(self, x):
        return self.layer(x.transpose(0, 1) if self.turned else x)[0].square().mean()


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_model_that_returns_its_loss_is_looked_into(batch_first):
    torch.manual_seed(0)
    model, given = Summed(batch_first), (X.clone(), torch.zeros(2, 3))
    assert mixes_rows(model, given, {}, sequence_first(model)) is (
        None if batch_first else True
    )  # None: no such layer


@pytest.mark.parametrize("turned", [True, False])
def test_a_layer_that_gets_the_sequence_first_mixes_no_rows(turned):
    torch.manual_seed(0)
    assert mixes_rows(Recurrent(turned), (X.clone(),), {}, ["layer"]) is (None if turned else True)


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.layer(x)[0])


def test_a_batch_that_is_taken_for_one_sequence_mixes_its_rows():
    torch.manual_seed(0)
    assert mixes_rows(Flat(), (X[:, 0].clone(),), {}) is True
    assert mixes_rows(Flat(), (X.clone(),), {}) is False


def test_two_positions_are_not_taken_for_two_rows():
    torch.manual_seed(0)
    assert mixes_rows(Recurrent(True), (X[:, :2].clone(),), {}, ["layer"]) is None
