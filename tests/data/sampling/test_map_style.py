import random

import numpy as np
import pytest
import torch

from hotloop.core.errors import DataError
from hotloop.data.sampling.map_style import Mapped


class Noisy:
    """Draws from every generator an augmentation may use."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        drawn = [torch.rand(()).item(), random.random(), np.random.rand()]
        return {"x": torch.tensor([index, *drawn], dtype=torch.float64)}


def mapped(dataset=None, **options) -> Mapped:
    return Mapped(dataset or Noisy(), **{"fingerprint": "n", "seed": 3, "shuffle": True, **options})


def test_an_epoch_meets_each_sample_once_in_an_order_of_its_own():
    one = mapped()
    orders = [one.ids(epoch, 0, 11).tolist() for epoch in (0, 1, 0)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(11))
    assert orders[0] != orders[1]
    assert orders[0] == orders[2]
    assert mapped(shuffle=False).ids(5, 2, 3).tolist() == [2, 3, 4]


def test_random_draws_depend_on_the_place_alone():
    whole = mapped().batch(1, 0, 8).tensors["x"]
    torch.manual_seed(99)
    later = mapped()
    later.batch(0, 0, 11)
    parts = torch.cat([later.batch(1, 5, 3).tensors["x"], later.batch(1, 0, 5).tensors["x"]])
    assert torch.equal(whole, torch.cat([parts[3:], parts[:3]]))
    assert len(set(whole[:, 1:].flatten().tolist())) == 24, "every draw is another one"
    assert not torch.equal(whole, mapped(seed=4).batch(1, 0, 8).tensors["x"])


def test_the_generators_of_the_training_are_left_as_they_were():
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    expected = torch.rand(()), random.random(), np.random.rand()
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    mapped().batch(0, 0, 4)
    assert (torch.rand(()), random.random(), np.random.rand()) == expected


def test_counts_are_of_samples_positions_and_targets():
    def tokens(samples):
        return {"inputs": torch.zeros(len(samples), 6, dtype=torch.long)}

    one = mapped(collate=tokens, targets=lambda tensors: 4).batch(0, 0, 3)
    assert (one.samples, one.tokens, one.targets) == (3, 18, 4)
    plain = mapped(Flat()).batch(0, 0, 2)
    assert (plain.samples, plain.tokens, plain.targets) == (2, 2, 2)


class Flat:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if index == 2:
            raise ValueError("not a picture")
        return {"x": torch.tensor(index)}


def test_a_sample_that_cannot_be_read_is_named():
    with pytest.raises(DataError, match="sample 2 of Flat cannot be read: ValueError: not a pict"):
        mapped(Flat(), shuffle=False).batch(0, 1, 3)


def test_places_beyond_the_epoch_are_refused():
    with pytest.raises(IndexError, match="an epoch has 11"):
        mapped().ids(0, 9, 3)
