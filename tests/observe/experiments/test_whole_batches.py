"""A batch is cut at once where that gives the batch of the samples."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hotloop.observe.experiments.variants import NOT_REACHED
from hotloop.observe.experiments.whole_batches import WholeBatches
from hotloop.observe.whatif.batch_replay import Loaders
from hotloop.observe.whatif.without_one_cost import Patches


class Rows(Dataset):
    """Rows of tensors, as a script writes it."""

    def __init__(self, change=None) -> None:
        self.x, self.y = torch.randn(64, 3), torch.arange(64)
        self.change, self.reads = change or (lambda x: x), 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        self.reads += 1
        return self.change(self.x[index]), self.y[index]


@pytest.fixture
def loaders():
    patches = Patches()
    yield Loaders(patches, switched=True)
    patches.undo()


def read(loaders, loader: DataLoader) -> list[torch.Tensor]:
    batches = []
    weight = torch.ones(3, requires_grad=True)
    for batch in loader:
        rows = torch.stack([row for row, _ in batch]) if isinstance(batch[0], tuple) else batch[0]
        (rows @ weight).sum().backward()
        loaders.backward()
        loaders.step()
        batches.append(rows)
    return batches


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_batches_are_the_same_and_read_at_once(loaders, by_hand):
    data = Rows()
    loader = DataLoader(data, batch_size=8)
    usual = read(loaders, loader)
    variant = WholeBatches(loaders, by_hand=by_hand)
    assert variant.prepare() is NOT_REACHED
    read(loaders, loader)
    assert variant.prepare() is None
    data.reads = 0
    variant.switch_on()
    changed = read(loaders, loader)
    variant.switch_off()
    assert data.reads == len(usual)
    assert all(map(torch.equal, usual, changed))
    read(loaders, loader)
    assert data.reads == len(usual) + len(data)


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (DataLoader(Rows(lambda x: x / x.sum()), batch_size=8), "at once is another"),
        (DataLoader(Rows(lambda x: x * float(x[0])), batch_size=8), "be indexed by a tensor"),
        (DataLoader(Rows(), batch_size=8, collate_fn=lambda b: b), "its batches itself"),
    ],
)
def test_what_is_another_batch_is_not_read_so(loaders, loader, why):
    read(loaders, loader)
    variant = WholeBatches(loaders)
    if variant.prepare() is NOT_REACHED:
        read(loaders, loader)
    assert why in variant.prepare()


def test_a_data_set_that_reads_whole_batches_is_left_alone(loaders):
    class Whole(TensorDataset):
        def __getitems__(self, indices):
            return [self[index] for index in indices]

    loader = DataLoader(Whole(torch.randn(64, 3), torch.arange(64)), batch_size=8)
    read(loaders, loader)
    assert "whole batches already" in WholeBatches(loaders).prepare()
