"""The search for the largest batch: each answer stands on runs, and there are few of them."""

import pytest

from hotloop.core.case.rehearsal import BatchTrial
from hotloop.rehearse.largest_batch import CLOSE, MOST, largest_batch

GIB = 1 << 30


def searched(first, peak, memory=24 * GIB, why=lambda _: None, rows=None):
    """Search with a card on which a batch takes `peak(batch)` bytes."""
    asked = []

    def trial(batch):
        asked.append(batch)
        no = why(batch)
        fits = None if no else peak(batch) <= memory
        return BatchTrial(batch=batch, fits=fits, peak_reserved=peak(batch), why_not=no)

    found = largest_batch(trial(first), trial, memory=memory, rows=rows)
    return found, asked


@pytest.mark.parametrize("first", [1, 8, 100, 4000])
@pytest.mark.parametrize(
    "peak",
    [
        lambda batch: 2 * GIB + batch * (17 << 20),
        lambda batch: 2 * GIB + -(-batch // 32) * 32 * (17 << 20),  # by steps
        lambda batch: GIB + int(batch**1.1) * (9 << 20),  # not on a line
    ],
)
def test_it_is_found_closely_and_proved_from_both_sides(first, peak):
    found, asked = searched(first, peak)
    true = max(batch for batch in range(1, 5000) if peak(batch) <= 24 * GIB)
    assert found.why_not is None
    assert found.fits <= true < found.fails
    assert found.fails - found.fits <= max(1, CLOSE * found.fits)
    assert {found.fits, found.fails} <= set(asked)
    assert len(set(asked)) == len(asked) <= MOST + 1


def test_what_fits_with_no_batch():
    found, asked = searched(8, lambda _: 30 * GIB)
    assert (found.fits, found.fails, asked) == (None, 1, [8, 4, 2, 1])


def test_memory_that_does_not_grow_is_searched_a_bounded_number_of_times():
    found, asked = searched(8, lambda _: GIB)
    assert (found.fits, found.fails) == (8 << MOST, None)
    assert len(asked) == MOST + 1


def test_no_batch_has_more_rows_than_the_data_set():
    found, asked = searched(8, lambda batch: batch * GIB >> 8, rows=1000)
    assert (found.fits, found.fails, asked[-1]) == (1000, None, 1000)
    assert found.why_not == "the data set has only 1,000 rows"


def test_a_run_that_tells_nothing_ends_the_search():
    found, asked = searched(
        8, lambda batch: batch * GIB >> 4, why=lambda batch: "too few rows" if batch > 64 else None
    )
    assert found.why_not == "too few rows"
    assert found.fits == 16
    assert asked[-1] > 64
