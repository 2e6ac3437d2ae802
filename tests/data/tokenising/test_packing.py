from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.tokenising.packing import best_fit, concat, pieces, waste


def rows_of(packed):
    return [packed.order[a:b].tolist() for a, b in pairwise(packed.starts)]


def one_at_a_time(lengths, capacity: int) -> int:
    """Rows of best-fit decreasing as a textbook has it: look at every row for every document."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [(room, row) for row, room in enumerate(rooms) if room >= length]
        if fitting:
            rooms[min(fitting)[1]] -= length
        else:
            rooms.append(capacity - length)
    return len(rooms)


@st.composite
def problems(draw) -> tuple[list[int], int]:
    """Any lengths, or many of those just over and under simple fractions of a row."""
    capacity = draw(st.one_of(st.integers(1, 40), st.sampled_from([60, 100, 255, 256, 70_000])))
    any_length = st.integers(1, capacity)
    near = {min(max(1, capacity // part + off), capacity) for part in range(1, 8) for off in (0, 1)}
    length = draw(st.sampled_from([any_length, st.sampled_from(sorted(near))]))
    return draw(st.lists(length, max_size=60)), capacity


@given(problem=problems())
@settings(max_examples=150)
def test_rows_are_valid_and_as_few_as_those_of_best_fit_decreasing(problem):
    lengths, capacity = problem
    packed = best_fit(np.array(lengths, dtype=np.int64), capacity)
    assert packed.order.dtype == packed.starts.dtype == np.int64
    rows = rows_of(packed)
    assert sorted(chain(*rows)) == list(range(len(lengths)))
    assert all(0 < sum(lengths[document] for document in row) <= capacity for row in rows)
    assert len(rows) == one_at_a_time(lengths, capacity)
    assert all(row == sorted(row) for row in rows)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


@pytest.mark.parametrize("capacity", [64, 2048, 100_000])
@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_rows_are_as_few_with_thousands_of_documents(capacity, spread):
    drawn = np.random.default_rng(0).lognormal(np.log(capacity / 10), spread, 3000)
    lengths = np.clip(drawn, 1, capacity).astype(np.int64)
    assert len(best_fit(lengths, capacity)) == one_at_a_time(lengths.tolist(), capacity)


@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_equal_lengths_are_placed_in_index_order(problem, seed):
    lengths, capacity = np.array(problem[0], dtype=np.int64), problem[1]

    def contents(lengths):
        """Return the rows as sets of: which of the documents of which length."""
        seen: Counter[int] = Counter()
        names = []
        for length in lengths.tolist():
            names.append((length, seen[length]))
            seen[length] += 1
        packed = best_fit(lengths, capacity)
        return {frozenset(names[d] for d in row) for row in rows_of(packed)}

    assert contents(lengths) == contents(np.random.default_rng(seed).permutation(lengths))


def test_golden_rows_never_change():
    packed = best_fit(np.array([3, 7, 5, 5, 2, 10, 1, 3, 4, 6, 5, 2]), 10)
    rows = rows_of(packed)
    assert rows == [[0, 1], [2, 3], [4, 7, 10], [5], [6, 11], [8, 9]]


def test_lengths_may_be_of_any_integer_type_and_stay_as_they_are():
    lengths = np.array([200, 100, 55, 156, 255], dtype=np.uint8)
    before = lengths.copy()
    assert len(best_fit(lengths, 256)) == len(best_fit(lengths.astype(np.int64), 256)) == 3
    assert (lengths == before).all()


def test_no_documents_make_no_rows():
    empty = np.array([], dtype=np.int64)
    packed, chunks, cut = best_fit(empty, 8), concat(empty, 8), pieces(empty, 8)
    assert packed.order.tolist() == chunks.packed.order.tolist() == cut.document.tolist() == []
    assert packed.starts.tolist() == chunks.packed.starts.tolist() == [0]


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([3, 0, 9], "document 1 has 0 tokens, but a row takes whole documents of 1 to 8; "),
        ([3, 8, 9, 0], "document 2 has 9 tokens.*cut long ones .pieces does.*leave out empty ones"),
        ([-1], "document 0 has -1 tokens"),
    ],
)
def test_a_document_that_fits_no_row_is_named(lengths, said):
    with pytest.raises(DataError, match=said):
        best_fit(np.array(lengths), 8)


LENGTHS = st.lists(st.integers(0, 30), max_size=40)


def tokens(lengths) -> list[tuple[int, int]]:
    return [(document, at) for document, length in enumerate(lengths) for at in range(length)]


def written_out(cut) -> list[list[tuple[int, int]]]:
    runs = zip(cut.document.tolist(), cut.first.tolist(), cut.count.tolist(), strict=True)
    return [[(document, first + i) for i in range(count)] for document, first, count in runs]


@given(lengths=LENGTHS, capacity=st.integers(1, 40))
def test_concatenation_fills_every_row_but_the_last_and_loses_no_token(lengths, capacity):
    chunks = concat(np.array(lengths, dtype=np.int64), capacity)
    runs = written_out(chunks.pieces)
    assert all(runs)
    packed = chunks.packed
    rows = [list(chain(*(runs[i] for i in row))) for row in rows_of(packed)]
    assert list(chain(*rows)) == tokens(lengths)
    assert all(len(row) == capacity for row in rows[:-1])
    assert all(0 < len(row) <= capacity for row in rows)


@given(lengths=LENGTHS, capacity=st.integers(1, 40))
def test_concatenation_cuts_nothing_but_at_the_ends_of_rows_and_documents(lengths, capacity):
    cut = concat(np.array(lengths, dtype=np.int64), capacity).pieces
    rows = -(-sum(lengths) // capacity)
    documents = sum(length > 0 for length in lengths)
    assert len(cut.count) <= rows + documents
    ends, total = np.cumsum(lengths), np.cumsum(cut.count)
    assert all(end % capacity == 0 or end in ends for end in total)


@given(lengths=LENGTHS, capacity=st.integers(1, 40))
def test_pieces_are_full_but_for_the_last_of_a_document_and_lose_no_token(lengths, capacity):
    cut = pieces(np.array(lengths, dtype=np.int64), capacity)
    assert list(chain(*written_out(cut))) == tokens(lengths)
    for document, first, count in zip(cut.document, cut.first, cut.count, strict=True):
        assert first % capacity == 0
        assert count == min(capacity, lengths[document] - first) > 0


def test_pieces_of_long_documents_can_be_packed():
    lengths = np.array([25, 3, 10, 0, 8])
    cut = pieces(lengths, 10)
    packed = best_fit(cut.count, 10)
    assert cut.count.tolist() == [10, 10, 5, 3, 10, 8]
    assert len(packed) == 5
    assert waste(lengths, len(packed), 10) == pytest.approx(4 / 50)


def test_waste_is_the_share_of_slots_without_a_token():
    assert waste(np.array([3, 3]), 1, 8) == 0.25
    assert waste(np.array([8, 8]), 2, 8) == 0
    assert waste(np.array([], dtype=np.int64), 0, 8) == 0
    assert waste(np.full(20, 255, dtype=np.uint8), 20, 510) == 0.5
