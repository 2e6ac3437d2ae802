"""Going through rows: every cut resumes, and the number of ranks changes no order."""

from contextlib import suppress
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.tiny_store import save

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.sampling.length_buckets import by_budget
from hotloop.data.sampling.row_batches import Walk
from hotloop.data.sampling.token_rows import Form, TokenRows

COUNT = 23
HOW = st.one_of(
    st.integers(1, 9).map(lambda batch: {"batch": batch}),
    st.integers(16, 80).map(lambda budget: {"budget": budget}),
)
quick = settings(max_examples=20, deadline=None)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    draw = np.random.default_rng(0)
    rows = [([[at] * int(draw.integers(1, 17))], None, None, None) for at in range(COUNT)]
    return save(tmp_path_factory.mktemp("store") / "tokens", {"train": rows}, batch=5)


def walk(store, *, shuffle=True, like=None, seed=3, **how):
    rows = TokenRows(store, "train", form=Form(pad=99), seed=seed, shuffle=shuffle, like=like)
    return Walk(rows, **how)


def met(batches):
    return [batch.tensors["input_ids"][:, 0].tolist() for batch in batches]


@quick
@given(how=HOW, epoch=st.integers(0, 3))
def test_each_row_comes_once_an_epoch(store, how, epoch):
    one = walk(store, **how)
    epochs = [met(one) for _ in range(epoch + 1)]
    for each in epochs:
        assert sorted(chain(*each)) == list(range(COUNT))
    assert one.state()["epoch"] == epoch + 1
    assert len({str(each) for each in epochs}) == epoch + 1


@quick
@given(how=HOW, epoch=st.integers(0, 2), sample=st.integers(0, COUNT))
def test_any_cut_resumes(store, how, epoch, sample):
    whole = walk(store, **how)
    for _ in range(epoch):
        met(whole)
    expected, following = list(chain(*met(whole))), met(whole)
    one = walk(store, **how)
    one.reset({**one.state(), "epoch": epoch, "sample": sample})
    assert list(chain(*met(one))) == expected[sample:]
    assert met(one) == following


@quick
@given(how=HOW, stop=st.integers(1, 5))
def test_the_state_after_a_batch_is_of_the_next_one(store, how, stop):
    expected = met(walk(store, **how))
    one, taken = walk(store, **how), []
    for batch in one:
        taken += met([batch])
        if len(taken) == stop:
            break
    other = walk(store, **how)
    other.reset(one.state())
    assert taken + (met(other) if one.state()["epoch"] == 0 else []) == expected


@quick
@given(batch=st.integers(4, 9), ranks=st.integers(1, 4), cut=st.integers(0, COUNT))
def test_the_order_is_the_same_whatever_the_number_of_ranks(store, batch, ranks, cut):
    expected = met(walk(store, batch=batch))
    shares = []
    for rank in range(ranks):
        one = walk(store, batch=batch, rank=rank, ranks=ranks)
        one.reset({**one.state(), "sample": cut})
        shares.append(_shares(one, batch))
    counts = [len(each[max(0, cut - at * batch) :]) for at, each in enumerate(expected)]
    for at in range(cut // batch, len(expected)):
        if counts[at] < ranks:
            assert not any(at in share for share in shares), "every rank refuses it"
            break
        together = sorted(row for share in shares for row in share[at])
        assert together == sorted(expected[at][-counts[at] :])


def _shares(one, batch):
    """Return the rows of each batch by its number, up to one that has too few for all ranks."""
    found = {}
    with suppress(DataError):
        for share in one:
            found[(one.state()["sample"] - 1) // batch] = met([share])[0]
    return found


def test_drop_last_affects_training_only_and_is_counted(store):
    one = walk(store, batch=5, drop_last=True)
    assert one.dropped == 3
    assert [len(each) for each in met(one)] == [5] * 4
    assert walk(store, batch=5).dropped == 0
    valid = walk(store, batch=5, drop_last=True, shuffle=False)
    assert valid.dropped == 0
    assert met(valid) == [list(range(at, min(at + 5, COUNT))) for at in range(0, COUNT, 5)]


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Stores of 1 and of 5 rows."""
    folder = tmp_path_factory.mktemp("few")
    rows = [([[at, at, at]], None, None, None) for at in range(5)]
    return {n: save(folder / str(n), {"train": rows[:n]}) for n in (1, 5)}


@pytest.mark.parametrize("how", [{"batch": 4}, {"budget": 40}, {"batch": 4, "shuffle": False}])
def test_some_rows_alone_are_walked_through(store, how):
    some = np.array([2, 3, 5, 7, 11, 13, 17, 19])
    how = dict(how)
    shuffle = how.pop("shuffle", True)
    rows = TokenRows(store, "train", form=Form(pad=99), seed=3, shuffle=shuffle, rows=some)
    one = Walk(rows, **how)
    for epoch in range(2):
        seen = list(chain.from_iterable(met(one)))
        assert sorted(seen) == some.tolist(), epoch
        assert (seen == some.tolist()) is not shuffle
    assert rows.longest == rows.lengths[some].max()
    others = TokenRows(store, "train", form=Form(pad=99), seed=3, shuffle=shuffle, rows=some[1:])
    assert others.fingerprint != rows.fingerprint


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("how", [{"batch": 8}, {"budget": 1000}, {"batch": 8, "shuffle": False}])
def test_fewer_rows_than_a_batch_are_one_batch(few, count, how):
    one = walk(few[count], **how)
    for _ in range(2):
        (batch,) = met(one)
        assert sorted(batch) == list(range(count))
    assert (one.dropped, one.state()["epoch"]) == (0, 2)


@pytest.mark.parametrize("count", [1, 5])
def test_where_dropping_leaves_nothing_it_is_said_with_the_numbers(few, count):
    one = walk(few[count], batch=8, drop_last=True)
    said = f"{count} samples fill no batch of 8, and drop_last drops the rest"
    with pytest.raises(DataError, match=said):
        met(one)
    with pytest.raises(DataError, match=said):
        _ = one.dropped
    valid = walk(few[count], batch=8, drop_last=True, shuffle=False)
    assert met(valid) == [list(range(count))], "evaluation reads every row"
    assert met(walk(few[count], batch=count, drop_last=True))[0] != []


def test_a_split_without_rows_is_refused_with_its_name(tmp_path):
    rows = [([[1, 2]], None, None, None)]
    store = save(tmp_path / "tokens", {"train": rows, "valid": []})
    with pytest.raises(DataError, match=r"tokens/valid has no row: make it of a source with rows"):
        TokenRows(store, "valid", form=Form(pad=0), seed=0, shuffle=False)


def test_evaluation_by_many_ranks_reads_each_row_once(store):
    shares = [met(walk(store, shuffle=False, batch=5, rank=rank, ranks=4)) for rank in range(4)]
    assert sorted(chain(*chain(*shares))) == list(range(COUNT))


def test_a_training_batch_with_fewer_rows_than_ranks_is_refused(store):
    one = walk(store, batch=11, rank=1, ranks=2)
    with pytest.raises(DataError, match=r"fewer rows \(1\) than there are ranks \(2\)"):
        met(one)


def test_batches_by_budget_are_those_of_batching(store):
    one = walk(store, budget=48)
    expected = by_budget(one.batches.order * 0 + 1, 48, seed=3, epoch=0)
    assert len(expected) < len(one.batches)
    lengths = TokenRows(store, "train", form=Form(pad=0), seed=3, shuffle=True).lengths
    expected = by_budget(lengths, 48, seed=3, epoch=0)
    assert met(one) == [expected.batch(at).tolist() for at in range(len(expected))]
    widths = [batch.tensors["input_ids"].shape[1] for batch in one]
    assert widths == by_budget(lengths, 48, seed=3, epoch=1).widths.tolist()


def test_rows_of_like_length_come_in_the_order_of_the_rows(store):
    one = walk(store, batch=4, like=4)
    rows = TokenRows(store, "train", form=Form(pad=0), seed=3, shuffle=True, like=4)
    assert list(chain(*met(one))) == rows.ids(0, 0, COUNT).tolist()


def test_a_position_of_another_order_is_refused(store):
    state = walk(store, batch=5).state()
    with pytest.raises(DataError, match="shuffled by seed 3, by number, but these rows are"):
        walk(store, batch=5, seed=4).reset(state)
    with pytest.raises(DataError, match="go on with the data, seed and settings"):
        walk(store, budget=48).reset(state)
    walk(store, batch=6).reset(state)  # the order is the same


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"sample": COUNT + 1}, "expected a sample up to 23 of an epoch, got 24 of 0"),
        ({"sample": -1}, "got -1 of 0"),
        ({"epoch": -1}, "got 0 of -1"),
        ({"epoch": "1"}, "expected an epoch and a sample, got '1' and 0"),
    ],
)
def test_a_position_that_no_epoch_has_is_refused(store, place, said):
    one = walk(store, batch=5)
    with pytest.raises(DataError, match=said):
        one.reset({**one.state(), **place})


def test_without_a_position_it_begins_again(store):
    one = walk(store, batch=5)
    first = met(one)
    one.reset()
    assert met(one) == first


@pytest.mark.parametrize("how", [{}, {"batch": 2, "budget": 48}])
def test_a_number_of_rows_or_a_budget_is_needed(store, how):
    with pytest.raises(ConfigError, match="a number of rows or a budget"):
        walk(store, **how)


@pytest.mark.parametrize("how", [{"shuffle": False}, {"like": 4}])
def test_a_budget_makes_an_order_of_its_own(store, how):
    with pytest.raises(ConfigError, match="a budget of tokens makes an order of its own"):
        walk(store, budget=48, **how)
