import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.observe.probes.lengths import SampleLengths, length_of, look
from hotloop.techniques.dynamic_padding import trimmed

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")


@pytest.mark.parametrize(
    ("sample", "length"),
    [
        ([3, 4, 5], 3),
        ("a text", 6),
        (torch.ones(7), 7),
        (np.ones((9, 40)), 9),  # frames of a recording
        (([1, 2], 0), 2),
        ((0, "text"), 4),
        ([torch.ones(5), torch.tensor(1)], 5),
        ({"input_ids": [1, 2, 3], "label": 1}, 3),
        ({"label": [1.0] * 9, "input_ids": [1, 2]}, 2),
        ({"label": 1, "words": [1, 2]}, 2),
        ({"input_ids": [1, 2, 0, 0], "attention_mask": [1, 1, 0, 0]}, 2),
        ({"input_ids": torch.ones(6), "attention_mask": torch.tensor([0, 0, 1, 1, 1, 0])}, 5),
        ({"attention_mask": [0, 0]}, 0),
        (torch.ones(3, 8, 8), None),  # an image
        ((torch.ones(3, 8, 8), 1), None),
        ({"attention_mask": torch.ones(2, 2)}, None),
        ({"label": 1}, None),
        (3, None),
        ([], None),
        (None, None),
    ],
)
def test_the_length_of_a_sample_is_that_of_its_sequence(sample, length):
    assert length_of(sample) == length


def test_lengths_are_known_when_all_that_are_asked_for_are():
    lengths = SampleLengths.unknown(4)
    lengths.learn(2, [1, 2, 3])
    assert lengths.of([2, 2]).tolist() == [3, 3]
    assert lengths.of([2, 1]) is None
    lengths.learn(1, "text")
    assert lengths.of([1, 2]).tolist() == [4, 3]
    lengths.learn(1, 7)  # has no length
    assert lengths.of([1]) is None
    lengths.learn(9, "the data set has grown")
    assert lengths.of([9]) is None
    assert lengths.of([]).tolist() == []


class Rows(Dataset):
    """Rows of 3 to 22 token ids."""

    reads = 0

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index):
        Rows.reads += 1
        return torch.full((3 + index % 20,), 7)


class Masked(Rows):
    """The same, padded to 24."""

    def __getitem__(self, index):
        mask = (torch.arange(24) < len(super().__getitem__(index))).long()
        return {"input_ids": mask * 7, "attention_mask": mask}


class Padded(Rows):
    def __getitem__(self, index):
        return torch.nn.functional.pad(super().__getitem__(index), (0, 5))[:8]


class Cropped(Rows):
    def __getitem__(self, index):
        return torch.ones(int(torch.randint(1, 50, ())))


class Broken(Rows):
    def __getitem__(self, index):
        raise OSError("no such file")


def longest(rows):
    return pad_sequence(rows, batch_first=True)


def widest(rows):
    return torch.stack([torch.nn.functional.pad(row, (0, 30 - len(row))) for row in rows])


def loader(data, collate=None, **options):
    return DataLoader(data, 4, shuffle=True, collate_fn=collate, **options)


def seen(of, **options):
    return look(of, trimmed=trimmed, **options)


def test_all_lengths_are_read_in_a_child_and_batches_that_are_narrower_are_told():
    Rows.reads, before = 0, torch.get_rng_state()
    found = seen(loader(Rows(), longest))
    assert found.lengths.tolist() == [3 + index % 20 for index in range(60)]
    assert (found.narrower, found.why_not, found.width) == ("itself", None, None)
    assert 0 < found.seconds < 2
    assert Rows.reads == 0
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_that_a_mask_can_cut_are_told_apart_from_those_that_nothing_can():
    found = seen(loader(Masked()))
    assert (found.narrower, found.width) == ("cut", 24)
    assert found.lengths.tolist() == [3 + index % 20 for index in range(60)]
    assert seen(loader(Rows(), widest)).narrower == "no"


def test_lengths_that_are_not_asked_for_are_not_read():
    found = seen(loader(Rows(), longest), limit=0.0)
    assert found.lengths is None
    assert found.seconds > 0


def test_of_a_subset_only_its_samples_are_known():
    picked = torch.utils.data.SubsetRandomSampler([5, 40, 41, 8])
    of = DataLoader(Rows(), 2, sampler=picked, collate_fn=longest)
    found = seen(of).lengths
    assert {index: int(found[index]) for index in np.flatnonzero(found >= 0)} == {
        5: 8, 8: 11, 40: 3, 41: 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (Padded(), "of one length, or padded to it without"),
        (Cropped(), "another length each time"),
        ([torch.ones(3, 4, 4)] * 20, "no sequence"),
    ],
)
def test_samples_without_a_length_of_their_own_are_said_to_have_none(data, why):
    assert why in seen(loader(data, list)).why_not


def test_samples_that_cannot_be_read_say_why():
    assert "no such file" in seen(loader(Broken()))
