import itertools

import numpy as np
import pytest
import torch
from tests.golden.feeds import COUNT, epochs, fed
from tests.golden.outside import Images
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SubsetRandomSampler

from hotloop.observe.probes.lengths import SampleLengths
from hotloop.techniques.on_scripts.bucketing import by_count, by_tokens
from hotloop.techniques.on_scripts.rebatching import Rebatched

LENGTHS = np.random.default_rng(0).permutation(np.arange(1, 241, dtype=np.int32))
ROWS = [torch.full((int(length),), at) for at, length in enumerate(LENGTHS)]
HAD = {
    "none": {},
    "started each epoch": {"num_workers": 1},
    "kept": {"num_workers": 1, "persistent_workers": True},
}


def longest(rows):
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def loader(**options):
    return DataLoader(ROWS, **{"batch_size": 8, "shuffle": True, "collate_fn": longest, **options})


def feed(divide=by_count, known=True, **options):
    lengths = SampleLengths(LENGTHS) if known else SampleLengths.unknown(len(ROWS))
    return Rebatched(lengths, divide, **options)


def read(of, into, epochs=2):
    """Return each epoch's batches as lists of the samples in them."""
    torch.manual_seed(0)
    seen = []
    with fed(into):
        for _ in range(epochs):
            if into is not None:
                into.on_iterator_requested(of)
            seen.append([batch[:, 0].tolist() for batch in of])
    return seen


def samples(epoch):
    return sorted(itertools.chain.from_iterable(epoch))


def widest(batches):
    return sum(len(batch) * max(LENGTHS[at] for at in batch) for batch in batches)


@pytest.mark.parametrize("had", HAD)
@pytest.mark.parametrize("divide", [by_count, by_tokens])
def test_each_sample_comes_once_an_epoch_in_narrower_batches(had, divide):
    plain, found = read(loader(**HAD[had]), None), read(loader(**HAD[had]), feed(divide))
    for before, after in zip(plain, found, strict=True):
        assert samples(after) == list(range(len(ROWS)))
        assert len(after) == len(before)
        assert widest(after) < 0.75 * widest(before)
    assert found[0] != found[1], "each epoch is another one"


@pytest.mark.parametrize("had", HAD)
def test_the_order_is_the_same_with_processes_and_without_and_at_each_run(had):
    def one():
        own = torch.Generator().manual_seed(5)
        return loader(generator=own, **HAD[had])

    assert read(one(), feed()) == read(one(), feed())
    alone = loader(sampler=RandomSampler(ROWS, generator=torch.Generator().manual_seed(5)),
                   shuffle=None)  # fmt: skip
    with_two = loader(sampler=RandomSampler(ROWS, generator=torch.Generator().manual_seed(5)),
                      shuffle=None, num_workers=1)  # fmt: skip
    assert read(alone, feed()) == read(with_two, feed())


@pytest.mark.parametrize("options", [{}, {"generator": True}, {"drop_last": True}])
def test_generators_are_drawn_from_as_before(options):
    def read_and_draw(into):
        torch.manual_seed(0)
        own = torch.Generator().manual_seed(3)
        given = {**options, **({"generator": own} if "generator" in options else {})}
        of, drawn = DataLoader(Images(COUNT), 4, shuffle=True, **given), []
        seen = epochs(of, into)
        drawn += seen[1::2]  # a number of the global stream after each batch
        return drawn, torch.get_rng_state().tolist(), own.get_state().tolist()

    lengths = SampleLengths(np.arange(COUNT, dtype=np.int32))
    assert read_and_draw(None) == read_and_draw(Rebatched(lengths, by_count))


def test_with_drop_last_the_same_samples_are_left_out():
    plain = read(loader(batch_size=7, drop_last=True), None)
    found = read(loader(batch_size=7, drop_last=True), feed())
    for before, after in zip(plain, found, strict=True):
        assert {len(batch) for batch in after} == {7}
        assert samples(after) == samples(before)


def test_a_subset_is_divided_too():
    some = list(range(0, len(ROWS), 2))
    of = loader(sampler=SubsetRandomSampler(some), shuffle=None)
    for epoch in read(of, feed()):
        assert samples(epoch) == some


def test_unknown_lengths_leave_batches_as_they_were():
    assert read(loader(), feed(known=False)) == read(loader(), None)


def test_lengths_are_learned_in_the_first_epoch_and_used_from_the_second_on():
    plain, found = read(loader(), None, 3), read(loader(), feed(known=False, learns=True), 3)
    assert found[0] == plain[0]
    for before, after in zip(plain[1:], found[1:], strict=True):
        assert samples(after) == list(range(len(ROWS)))
        assert widest(after) < 0.75 * widest(before)


def test_an_epoch_that_was_broken_off_teaches_what_it_read():
    into, of = feed(known=False, learns=True), loader()
    with fed(into):
        batch = next(iter(of))
        first = [into._lengths.of([int(at)]) is not None for at in batch[:, 0]]
        assert all(first)
        assert into._lengths.of(range(len(ROWS))) is None
        for _ in of:
            pass
    assert into._lengths.of(range(len(ROWS))).tolist() == LENGTHS.tolist()


def test_worker_processes_learn_nothing_and_it_is_said():
    troubles = []
    into = feed(known=False, learns=True, troubles=troubles)
    assert read(loader(num_workers=1), into) == read(loader(num_workers=1), None)
    assert troubles == ["its worker processes read the samples: no lengths are learned"]


def test_a_sampler_that_counts_its_epochs_is_read_to_its_end():
    class Counting(RandomSampler):
        ended = 0

        def __iter__(self):
            yield from super().__iter__()
            self.ended += 1

    sampler = Counting(ROWS)
    read(loader(sampler=sampler, shuffle=None), feed())
    assert sampler.ended == 2


def test_the_length_of_the_iterator_is_what_it_was():
    of = loader(batch_size=7)
    with fed(feed(by_tokens)):
        assert len(iter(of)) == len(of) == 35
        assert isinstance(of.batch_sampler, BatchSampler)
