import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset, default_collate

from hotloop.observe.probes.equality import equal
from hotloop.techniques.on_scripts.dataset_cache import (
    CHECKED_FIRST,
    CachedReads,
    SampleCache,
    VectorisedReads,
    vectorised,
)


class Counting:
    """Counts its reads; `shift` changes what they give."""

    def __init__(self) -> None:
        self.reads, self.shift = [], 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index):
        self.reads.append(index)
        return torch.tensor([index + self.shift])


def epoch(data, cache: SampleCache) -> list[int]:
    state = data.reads, data.reads.clear()
    del state
    cache.begin("the same data set")
    return [int(CachedReads(data, cache)[index]) for index in range(40)]


def test_the_second_epoch_reads_only_what_is_checked() -> None:
    data, cache = Counting(), SampleCache(1 << 20, [])
    assert epoch(data, cache) == list(range(40))
    assert len(data.reads) == 40
    assert epoch(data, cache) == list(range(40))
    assert len(data.reads) == CHECKED_FIRST
    assert cache.hits == 40


def test_a_sample_that_changed_ends_the_cache_and_is_said() -> None:
    troubles: list[str] = []
    data, cache = Counting(), SampleCache(1 << 20, troubles)
    epoch(data, cache)
    data.shift = 100
    assert epoch(data, cache) == list(range(100, 140))
    assert troubles == ["it was ended: sample 0 was another one when it was read again"]


def test_a_data_set_that_was_changed_is_read_anew() -> None:
    troubles: list[str] = []
    data, cache = Counting(), SampleCache(1 << 20, troubles)
    for shift in (0, 100):
        data.shift = shift
        data.reads = []  # marks see another list
        cache.begin(data)
        reads = [int(CachedReads(data, cache)[index]) for index in range(40)]
        assert reads == list(range(shift, shift + 40))
    assert not cache.is_off
    assert troubles == ["the data set had changed, so its samples were read anew"]


class Warns:
    """Notes at its first read that it has warned, as tokenizers do; `shift` changes samples."""

    def __init__(self) -> None:
        self.warned, self.shift = {}, 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index):
        self.warned["once"] = True
        READ.append(index)
        return torch.tensor([index + self.shift])


READ: list[int] = []


def test_what_the_first_batch_changes_does_not_empty_the_cache() -> None:
    troubles: list[str] = []
    data, cache = Warns(), SampleCache(1 << 20, troubles)
    counts = []
    for _ in range(3):
        READ.clear()
        cache.begin(data)
        reads = CachedReads(data, cache)
        batches = [reads.__getitems__(list(range(at, at + 8))) for at in range(0, 40, 8)]
        assert [int(sample) for batch in batches for sample in batch] == list(range(40))
        counts.append(len(READ))
    assert counts[0] == 40
    # The first batch was read before the data set was what it is now, so it is read once more.
    assert counts[1] == 8 + CHECKED_FIRST
    assert counts[2] <= CHECKED_FIRST
    assert troubles == []


def test_a_loop_that_changes_the_data_set_after_its_first_batch_gets_the_right_samples() -> None:
    data, cache = Warns(), SampleCache(1 << 20, [])
    for _ in range(2):
        cache.begin(data)
        reads = CachedReads(data, cache)
        for at in range(0, 40, 8):
            expected = [index + data.shift for index in range(at, at + 8)]
            assert [
                int(sample) for sample in reads.__getitems__(list(range(at, at + 8)))
            ] == expected
            data.shift = 100
    assert not cache.is_off


def test_memory_is_kept_within_its_limit() -> None:
    troubles: list[str] = []
    data, cache = Counting(), SampleCache(2000, troubles)
    assert epoch(data, cache) == list(range(40))
    assert "do not fit" in troubles[0]


def test_changing_a_sample_does_not_change_the_cache() -> None:
    data, cache = Counting(), SampleCache(1 << 20, [])
    epoch(data, cache)
    cache.begin("the same data set")
    reads = CachedReads(data, cache)
    for index in range(CHECKED_FIRST + 1):
        reads[index].fill_(-1)
    assert int(reads[CHECKED_FIRST]) == CHECKED_FIRST


def tensors() -> TensorDataset:
    return TensorDataset(torch.randn(12, 3), torch.arange(12))


@pytest.mark.parametrize("data", [tensors(), Subset(tensors(), [5, 1, 7, 7]), torch.randn(9, 2)])
def test_a_batch_that_is_cut_at_once_is_what_collate_makes(data) -> None:
    indices = [3, 0, 2]
    assert equal(vectorised(data, indices), default_collate([data[i] for i in indices]))


def test_the_first_batch_of_an_iterator_is_read_as_before() -> None:
    data = tensors()
    reads = VectorisedReads(data, lambda rows: "collated")
    assert reads.__getitems__([0, 1]) == "collated"
    assert equal(reads.__getitems__([0, 1]), default_collate([data[0], data[1]]))


def test_what_is_no_batch_of_tensors_is_refused() -> None:
    with pytest.raises(TypeError):
        vectorised([1, 2, 3], [0])


class Rows(Counting):
    """Gives a tensor, an array and a label."""

    def __getitem__(self, index):
        return super().__getitem__(index), np.array([index]), {"label": index}


def batches(data, cache: SampleCache, change=lambda sample: None) -> list:
    """Read an epoch in batches of 10, let a loop use each sample; return the tensors it got."""
    cache.begin("the same data set")
    reads, got = CachedReads(data, cache), []
    for first in range(0, 40, 10):
        samples = reads.__getitems__(list(range(first, first + 10)))
        for index, (tensor, array, rest) in enumerate(samples, first):
            assert (int(tensor), array.tolist(), rest) == (index, [index], {"label": index})
            got.append(tensor)
            change(tensor)
            array += 1
            rest["label"] = -1
    return got


def pointers(got) -> list[int]:
    return [tensor.data_ptr() for tensor in got[CHECKED_FIRST:]]


def test_tensors_are_lent_once_an_epoch_has_shown_that_the_loop_leaves_them_alone() -> None:
    data, cache = Rows(), SampleCache(1 << 20, [])
    batches(data, cache)
    second = pointers(batches(data, cache))
    third = pointers(batches(data, cache))
    assert second != third
    assert pointers(batches(data, cache)) == third


def test_a_loop_that_changes_what_it_is_given_is_lent_nothing() -> None:
    data, cache = Rows(), SampleCache(1 << 20, [])
    for _ in range(5):
        got = batches(data, cache, change=lambda tensor: tensor.add_(100))
    assert len(set(pointers(got)) & set(pointers(batches(data, cache)))) == 0
    assert not cache.is_off


@pytest.mark.parametrize("change", [lambda t: t.add_(100), lambda t: t.detach().zero_()])
def test_a_loop_that_begins_to_change_what_it_was_lent_gets_the_right_samples(change) -> None:
    data, cache = Rows(), SampleCache(1 << 20, [])
    for _ in range(3):
        batches(data, cache)
    for _ in range(3):
        batches(data, cache, change=change)  # what it reads is compared there
    assert not cache.is_off


def test_tensors_of_inference_have_no_version_and_are_never_lent() -> None:
    with torch.inference_mode():
        data, cache = Rows(), SampleCache(1 << 20, [])
        for _ in range(4):
            batches(data, cache, change=lambda tensor: tensor.add_(1))
