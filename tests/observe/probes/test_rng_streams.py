import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from hotloop.observe.probes.rng_streams import moved, positions


class Holds(Dataset):
    """Has a generator somewhere in it."""

    def __init__(self, held=None) -> None:
        self.held = held

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index):
        return index


class Transform:
    def __init__(self, generator) -> None:
        self.steps = [generator]


def test_the_global_generators_are_told_apart() -> None:
    loader = DataLoader(Holds())
    before = positions(loader)
    assert moved(before, positions(loader)) == []
    torch.randn(())
    random.random()
    np.random.rand()
    assert moved(before, positions(loader)) == ["torch", "random", "numpy.random"]


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator(), lambda g: torch.randn((), generator=g)),
        (random.Random(1), lambda g: g.random()),
        (np.random.default_rng(1), lambda g: g.random()),
        (np.random.Generator(np.random.MT19937(1)), lambda g: g.random()),
        (np.random.RandomState(1), lambda g: g.rand()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_generator_that_the_data_set_holds_is_looked_at(generator, draw) -> None:
    loader = DataLoader(Holds(Transform(generator)))
    before = positions(loader)
    draw(generator)
    assert moved(before, positions(loader)) == ["the data set's generator 1"]


def test_the_loaders_own_generator_is_looked_at_once() -> None:
    loader = DataLoader(Holds(), shuffle=True, generator=torch.Generator())
    before = positions(loader)
    torch.randn((), generator=loader.generator)
    assert moved(before, positions(loader)) == ["the loader's generator 1"]
