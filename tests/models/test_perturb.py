"""What moves in an output when a part of the input is changed."""

import pytest
import torch
from torch import nn

from hotloop.models.perturb import NOISE, moved


def test_what_moves_is_told_number_by_number_and_all_is_put_back():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    given = torch.arange(6.0).reshape(2, 3)
    before, state = given.clone(), torch.get_rng_state()
    far = moved(model, lambda: model(given), [(given[0], given[1])])
    assert far.shape == (2, 2)
    assert (far[0] > NOISE).all()
    assert (far[1] == 0).all()
    assert torch.equal(given, before)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("run", [lambda: None, lambda: torch.rand(2)])
def test_without_an_output_or_with_another_one_each_time_it_cannot_be_told(run):
    given = torch.ones(2, 3)
    assert moved(nn.Linear(3, 2), run, [(given[0], given[1])]) is None


def test_an_error_puts_the_modes_back():
    model, given = nn.Dropout(0.5), torch.ones(2, 3)

    def fail() -> None:
        raise RuntimeError("no such batch")

    with pytest.raises(RuntimeError, match="no such batch"):
        moved(model, fail, [(given[0], given[1])])
    assert model.training
