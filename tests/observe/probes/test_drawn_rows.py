"""What the samplers of loaders draw in their first epochs."""

import pytest

TRAIN = """
import random
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

class Part:
    def __init__(self, seed=None):
        self.seed = seed

    def __len__(self):
        return 8

    def __iter__(self):
        rng = random.Random(self.seed)
        for _ in range(8):
            yield rng.sample(range(100), 4)

data = TensorDataset(torch.arange(100.0)[:, None])
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = {loader}
for epoch in range(3):
    for (x,) in loader{each}:
        model(x).square().mean().backward()
        optimizer.step()
"""


@pytest.fixture
def drawn(observed):
    """A function: the loader -> rows drawn, epochs compared, whether they are equal."""

    def draw(loader: str, each: str = ""):
        case = observed(TRAIN.format(loader=loader, each=each), full=True)
        (facts,) = case.loaders
        return facts.drawn, facts.epochs_drawn, facts.draws_again

    return draw


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_that_begins_anew_draws_the_same_part(drawn, workers: int):
    rows, epochs, again = drawn(f"DataLoader(data, batch_sampler=Part(0), num_workers={workers})")
    assert (epochs, again) == (3, True)
    assert rows is not None
    assert rows <= 32


def test_other_rows_in_each_epoch_are_added_up(drawn):
    rows, epochs, again = drawn("DataLoader(data, batch_sampler=Part())")
    assert (epochs, again) == (3, False)
    assert rows is not None
    assert rows > 32


@pytest.mark.parametrize("kind", ["slice", "tensor", "array"])
def test_a_batch_may_be_a_slice_or_an_array(drawn, kind: str):
    batches = {
        "slice": "[slice(i, i + 10) for i in range(0, 100, 10)]",
        "tensor": "list(torch.arange(100).split(10))",
        "array": "list(torch.arange(100).numpy().reshape(10, 10))",
    }
    loader = f"DataLoader(data, batch_size=None, sampler={batches[kind]})"
    assert drawn(loader) == (100, 3, False)


def test_rows_in_their_own_order_are_not_drawn_again(drawn):
    assert drawn("DataLoader(data, batch_size=10)") == (100, 3, False)


def test_a_shuffle_differs_from_epoch_to_epoch(drawn):
    assert drawn("DataLoader(data, batch_size=10, shuffle=True)") == (100, 3, False)


def test_a_loader_that_is_built_with_the_same_seed_in_each_epoch_draws_again(drawn):
    loader = (
        "lambda: DataLoader(data, batch_size=10, shuffle=True, "
        "generator=torch.Generator().manual_seed(1))"
    )
    assert drawn(loader, each="()") == (100, 3, True)


def test_an_epoch_of_few_batches_says_nothing(drawn):
    assert drawn("DataLoader(data, batch_size=50, shuffle=True)") == (None, 0, False)
