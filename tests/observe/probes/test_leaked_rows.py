"""Which rows of an evaluation were trained on before."""

import pytest

from hotloop.observe.probes import leaked_rows
from hotloop.observe.probes.loader_samples import LoaderSamples

TRAIN, OTHER, HELD_OUT = 0, 1, 2
FOLDS = [(TRAIN, 1), (HELD_OUT, 1), (OTHER, 1), (HELD_OUT, 2)]


def kept(rows, *, names=("x", "y"), data=1):
    """What was kept of a loader: rows by epoch, (main, label) each."""
    return LoaderSamples(rows=rows, names=names, data=data)


def numbered(*numbers):
    return [None if number is None else (number, 0) for number in numbers]


def test_an_evaluation_is_of_what_was_trained_since_the_one_before():
    assert list(leaked_rows.trained_before(FOLDS, {TRAIN, OTHER})) == [
        ((HELD_OUT, 1), {(TRAIN, 1)}),
        ((HELD_OUT, 2), {(OTHER, 1)}),
    ]


def test_an_epoch_that_goes_on_counts_for_the_next_evaluation_too():
    order = [(TRAIN, 1), (HELD_OUT, 1), (3, 1), (HELD_OUT, 2)]
    assert [trained for _, trained in leaked_rows.trained_before(order, {TRAIN})] == [
        {(TRAIN, 1)}
    ] * 3
    assert list(leaked_rows.trained_before([(HELD_OUT, 1)], {TRAIN})) == [((HELD_OUT, 1), set())]


def test_rows_are_put_in_proportion_to_what_was_seen_of_the_training():
    seen = {TRAIN: kept({1: numbered(1, 2, 3, 9)}), HELD_OUT: kept({1: numbered(1, 2, 3, 4)})}
    order = [(TRAIN, 1), (HELD_OUT, 1)]
    assert leaked_rows.shared(order, seen, {TRAIN: 4}, HELD_OUT) == 0.75
    assert leaked_rows.shared(order, seen, {TRAIN: 8}, HELD_OUT) == 1.0
    assert leaked_rows.shared(order, seen, {TRAIN: None}, HELD_OUT) == 0.75
    assert leaked_rows.shared(order[1:], seen, {TRAIN: 4}, HELD_OUT) is None, (
        "nothing was trained yet"
    )


@pytest.mark.parametrize(
    ("held_out", "share"),
    [
        (numbered(5, 6, 7, 8), 0.0),
        (numbered(1, 2, 7, 8), 0.0),  # two equal rows say nothing of all
        (numbered(1, 2, 3, None), 0.75),  # a row that says too little is equal to none
    ],
)
def test_what_is_equal_is_counted(held_out, share):
    seen = {TRAIN: kept({1: numbered(1, 2, 3, 4)}), HELD_OUT: kept({1: held_out})}
    assert leaked_rows.shared([(TRAIN, 1), (HELD_OUT, 1)], seen, {TRAIN: 4}, HELD_OUT) == share


def test_folds_that_train_on_each_others_rows_leak_nothing():
    first, second = numbered(1, 2, 3, 4), numbered(5, 6, 7, 8)
    seen = {TRAIN: kept({1: first}), OTHER: kept({1: second})}
    seen[HELD_OUT] = kept({1: second, 2: first})
    assert leaked_rows.shared(FOLDS, seen, {TRAIN: 4, OTHER: 4}, HELD_OUT) == 0.0
    seen[HELD_OUT] = kept({1: first, 2: second})
    assert leaked_rows.shared(FOLDS, seen, {TRAIN: 4, OTHER: 4}, HELD_OUT) == 1.0


def test_rows_drawn_from_few_are_equal_by_chance():
    few = [number % 5 for number in range(40)]
    assert leaked_rows.by_chance([[(number,) for number in few]]) == 1.0
    assert leaked_rows.by_chance([[(number,) for number in range(40)]]) == 0.0
    seen = {TRAIN: kept({1: numbered(*few)}), HELD_OUT: kept({1: numbered(*few[:10])})}
    assert leaked_rows.shared([(TRAIN, 1), (HELD_OUT, 1)], seen, {TRAIN: 40}, HELD_OUT) == 0.0


def test_what_only_one_side_has_does_not_tell_rows_apart():
    train = kept({1: [(n, 7, 100 + n) for n in range(6)]}, names=("x", "y", "id"))
    held_out = kept({1: [(n, 7) for n in range(6)]}, names=("x", "y"))
    order, seen = [(TRAIN, 1), (HELD_OUT, 1)], {TRAIN: train, HELD_OUT: held_out}
    assert leaked_rows.shared(order, seen, {TRAIN: 6}, HELD_OUT) == 1.0
    train.names = ("x", "label", "y")  # the labels differ
    assert leaked_rows.shared(order, seen, {TRAIN: 6}, HELD_OUT) == 0.0


def test_an_evaluation_may_read_the_training_data_itself():
    seen = {TRAIN: kept({}, data=1), HELD_OUT: kept({}, data=1), 3: kept({}, data=2)}
    order = [(TRAIN, 1), (HELD_OUT, 1), (3, 1)]
    assert leaked_rows.reads_training_data(order, seen, {TRAIN}, HELD_OUT)
    assert not leaked_rows.reads_training_data(order, seen, {TRAIN}, 3)
