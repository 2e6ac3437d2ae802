"""Losses whose predictions and targets are broadcast against each other."""

from types import SimpleNamespace

import pytest
import torch
from tests.observe.ledger.recorded import recorded
from torch import nn
from torch.nn import functional

from hotloop.observe.ledger.losses import crossed

ROWS = 8


def seen(loss):
    """Return the broadcast losses among three steps of a model with one output."""
    model = nn.Linear(4, 1)
    x, y = torch.randn(ROWS, 4), torch.randn(ROWS)
    recorder, _ = recorded(lambda: [loss(model(x), y)], list(model.parameters()))
    found = crossed([SimpleNamespace(recorder=recorder)])
    recorder.release()
    return found


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    "loss",
    [
        lambda p, y: (p - y).pow(2).mean(),
        lambda p, y: ((y - p) ** 2).sum() / ROWS + 0.1 * p.square().mean(),
        functional.mse_loss,
        functional.l1_loss,
        functional.smooth_l1_loss,
        functional.huber_loss,
        lambda p, y: functional.mse_loss(p, y, reduction="none").mean(),
        lambda p, y: functional.mse_loss(p.squeeze(1), y[:, None]),
    ],
)
def test_a_loss_of_all_pairs_is_seen(loss):
    (found,) = seen(loss)
    assert {found.prediction, found.target} == {(ROWS, 1), (ROWS,)}
    assert found.place.file == __file__


def test_the_prediction_is_what_is_trained():
    (found,) = seen(lambda p, y: (y - p).abs().mean())
    assert (found.prediction, found.target) == ((ROWS, 1), (ROWS,))
    (found,) = seen(lambda p, y: (y[:, None] - p.squeeze(1)).abs().mean())
    assert (found.prediction, found.target) == ((ROWS,), (ROWS, 1))


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, y: functional.mse_loss(p, y[:, None]),  # each with its own target
        lambda p, _: (p - p.T).pow(2).mean(),  # distances of all pairs of predictions
        lambda p, y: (p - y[None]).pow(2).mean(),  # a row that the script has made
        lambda p, y: (p - y).pow(2).mean(dim=1).max(),  # not all are summed up
        lambda p, y: (torch.exp(-(p - y).pow(2)) @ y).mean(),  # weights of an attention
        lambda p, y: (p - y.mean()).pow(2).mean(),
        lambda p, y: (p - y[:3]).pow(2).mean(),  # quantiles, a grid: other lengths
        lambda p, y: (p.detach() - y).pow(2).mean() + p.sum(),  # a figure, no loss of p
        lambda p, y: torch.exp(-(p - y).pow(2)).mean(),  # a kernel
        lambda p, y: 2 * (p - y).abs().mean() - (p - p.T).abs().mean(),  # distance of two sets
        lambda p, y: ((p - y).abs() * (0.5 - (p < y).float()).abs()).sum(),  # quantiles
        lambda p, y: torch.stack(torch.meshgrid(p[:, 0], y, indexing="ij")).diff(dim=0).sum(),
        lambda p, y: (torch.meshgrid(p[:, 0], y, indexing="ij")[0] - y.expand(ROWS, ROWS)).sum(),
        lambda p, y: (p - p.detach().squeeze(1)).abs().sum(),  # its own values
    ],
)
def test_other_differences_are_none(loss):
    assert not seen(loss)


def test_many_operations_on_all_pairs_are_searched_once():
    def loss(p, y):
        u = p - y
        for _ in range(60):
            u = u - 0.1 * u.abs()
        return u.softmax(1).amax()

    assert not seen(loss)
