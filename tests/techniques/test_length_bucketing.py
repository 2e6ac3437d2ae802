import itertools
import time

import numpy as np
import pytest
import torch
from tests.golden.outside import MACHINE, put_into
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)

from hotloop.observe.probes import lengths
from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.session.session import ScriptSession
from hotloop.techniques.length_bucketing import TECHNIQUE

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
WIDE, COUNT = 64, 120


class Rows(Dataset):
    """Rows of 1 to 40 token ids, and a label."""

    lengths = np.random.default_rng(0).permutation(np.arange(COUNT) % 40 + 1)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index):
        return torch.full((int(self.lengths[index]),), 1 + index % 5), index % 3


class Masked(Rows):
    """The same, padded to 64 columns."""

    def __getitem__(self, index):
        ids, label = super().__getitem__(index)
        mask = (torch.arange(WIDE) < len(ids)).long()
        return {"input_ids": mask * ids[0], "attention_mask": mask, "labels": label, "at": index}


class Labelled(Masked):
    """Padding carries loss: it cannot be cut."""

    def __getitem__(self, index):
        return super().__getitem__(index) | {"labels": torch.ones(WIDE)}


def longest(rows):
    return pad_sequence([ids for ids, _ in rows], batch_first=True), torch.tensor(
        [label for _, label in rows]
    )


def masked(**options):
    return DataLoader(Masked(), **{"batch_size": 8, "shuffle": True, **options})


def plain(**options):
    given = {"batch_size": 8, "shuffle": True, "collate_fn": longest, **options}
    return DataLoader(Rows(), **given)


def session(of):
    model = nn.Module()
    return ScriptSession(
        hardware=MACHINE, device=torch.device("cpu"), model=model, forward=model, loader=of
    )


def applied(of, technique=TECHNIQUE, **choice):
    put = session(of)
    assert technique.apply(put, **choice) == (put.refused is None)
    return put


def samples(seen):
    """Return the indices of all batches, sorted."""
    return sorted(itertools.chain.from_iterable(at for at, _ in seen))


def train(of, epochs=2):
    """Train on the masked rows; return the indices of each batch, its width, and the steps."""
    torch.manual_seed(0)
    table, seen = nn.Embedding(8, 3), []
    update = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(epochs):
        for batch in of:
            mask = batch["attention_mask"].unsqueeze(-1)
            mean = (table(batch["input_ids"]) * mask).sum(1) / mask.sum(1)
            cross_entropy(mean, batch["labels"]).backward()
            update.step()
            update.zero_grad()
            seen.append((batch["at"].tolist(), batch["input_ids"].shape[1]))
    return seen


# What it does.


def test_a_script_that_pads_all_rows_to_one_width_trains_on_narrow_batches_of_all_its_samples():
    seen, effects = put_into(lambda: train(masked()), "length-bucketing")
    said = effects["length-bucketing"]
    assert said.word == "in effect", said
    assert said.how.startswith("batches are sorted by length and cut to a multiple of 8 columns")
    assert f"{1 - Rows.lengths.mean() / WIDE:.0%} before" in said.how
    assert "120 lengths, read in" in said.how
    for epoch in (seen[:15], seen[15:]):
        assert samples(epoch) == list(range(COUNT))
        assert {len(at) for at, _ in epoch} == {8}
        for at, width in epoch:
            assert width == -(-Rows.lengths[at].max() // 8) * 8
    assert seen[:15] != seen[15:]
    widths = sum(width for _, width in seen)
    dynamic, _ = put_into(lambda: train(masked()), "dynamic-padding")
    assert widths < 0.85 * sum(width for _, width in dynamic)


class Costly(Masked):
    """Rows that take time to read."""

    def __getitem__(self, index):
        until = time.perf_counter() + 3e-4
        while time.perf_counter() < until:
            pass
        return super().__getitem__(index)


@pytest.mark.parametrize("with_it", ["dynamic-padding", "loader-workers:count=1", "sample-cache"])
@pytest.mark.parametrize("id", ["length-bucketing", "token-budget"])
def test_it_goes_together_with_what_else_changes_a_loader(id, with_it):
    def read():
        return train(DataLoader(Costly(), batch_size=8, shuffle=True))

    alone, _ = put_into(read, id)
    both, effects = put_into(read, id, with_it)
    assert {effect.word for effect in effects.values()} == {"in effect"}, effects
    assert both == alone


def test_the_cut_is_left_to_dynamic_padding_where_that_is_put_in():
    _, effects = put_into(lambda: train(masked()), "length-bucketing", "dynamic-padding")
    assert "cut" not in effects["length-bucketing"].how
    assert "cut" in effects["dynamic-padding"].how


def test_a_script_that_pads_to_the_longest_is_not_cut():
    put = applied(plain())
    assert TECHNIQUE.read_back(put).startswith("batches are sorted by length: ")
    assert set(put.loader_changes) == {"length-bucketing"}, "nothing is to be cut"


def test_lengths_are_learned_in_the_first_epoch_where_that_is_asked_for():
    def learned(epochs):
        return put_into(lambda: train(masked(), epochs), "length-bucketing:lengths=learn")

    seen, effects = learned(3)
    assert "from the second epoch on" in effects["length-bucketing"].how
    first, second, third = (seen[at : at + 15] for at in (0, 15, 30))
    without = train(masked(), 1)
    assert [at for at, _ in first] == [at for at, _ in without]
    for epoch in (second, third):
        assert samples(epoch) == list(range(COUNT))
        assert sum(width for _, width in epoch) < 0.85 * sum(width for _, width in first)


def test_nothing_is_there_to_read_back_before_it_is_applied():
    assert TECHNIQUE.read_back(session(masked())) is None


# What is refused.


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(16))


class Curriculum(RandomSampler):
    def __iter__(self):
        return iter(range(COUNT))


class Own(BatchSampler):
    pass


class Slow(Rows):
    def __getitem__(self, index):
        time.sleep(0.005)
        return super().__getitem__(index)


SAME = TensorDataset(torch.ones(80, 6), torch.arange(80))
UNFIT = {
    "iterable data set": lambda: DataLoader(Stream(), batch_size=4),
    "makes its batches itself": lambda: DataLoader(Rows(), batch_size=None),
    "its Own makes the batches": lambda: DataLoader(
        Rows(), batch_sampler=Own(RandomSampler(Rows()), 8, False), collate_fn=longest
    ),
    "order of a SequentialSampler": lambda: plain(shuffle=False),
    "order of a Curriculum": lambda: plain(shuffle=None, sampler=Curriculum(Rows())),
    "more than once": lambda: plain(shuffle=None, sampler=RandomSampler(Rows(), replacement=True)),
    "one sample has no padding": lambda: plain(batch_size=1),
    "a single batch": lambda: plain(batch_size=COUNT),
    "are of one length": lambda: DataLoader(SAME, batch_size=8, shuffle=True),
    "cannot be cut": lambda: DataLoader(Labelled(), batch_size=8, shuffle=True),
    "of like length already": lambda: DataLoader(
        [torch.ones(100 + at % 2) for at in range(80)],
        batch_size=4,
        shuffle=True,
        collate_fn=lambda rows: pad_sequence(rows, batch_first=True),
    ),
}


@pytest.mark.parametrize("why", UNFIT)
def test_where_the_order_has_a_meaning_or_nothing_is_gained_it_is_refused(why):
    of = UNFIT[why]()
    before = dict(vars(of))
    put = applied(of)
    assert why in str(put.refused)
    assert put.loader_changes == {}
    assert vars(of) == before
    assert TECHNIQUE.read_back(put) is None


def test_samples_that_take_long_to_read_are_read_beforehand_where_a_plan_or_workers_need_it(
    monkeypatch,
):
    monkeypatch.setattr(lengths, "READING", 0.3)  # not 2 s, of which each look below takes a part
    of = DataLoader(Slow(), batch_size=8, shuffle=True, collate_fn=longest)
    assert "second epoch" in TECHNIQUE.read_back(applied(of))
    assert "lengths, read in" in TECHNIQUE.read_back(applied(of, lengths="read"))
    of = DataLoader(Slow(), batch_size=8, shuffle=True, collate_fn=longest, num_workers=1)
    assert "lengths, read in" in TECHNIQUE.read_back(applied(of))
    assert applied(of, lengths="learn").refused == "its worker processes would learn the lengths"


def test_a_sampler_of_accelerate_is_a_random_one():
    data_loader = pytest.importorskip("accelerate.data_loader")
    sampler = data_loader.SeedableRandomSampler(Rows())
    assert applied(plain(shuffle=None, sampler=sampler)).refused is None
