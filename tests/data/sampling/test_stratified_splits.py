from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.stratified_splits import folds, held_out

SEEDS = st.integers(0, 2**40)
STREAM = 1 << 40  # the epoch whose order the parts are drawn with


@st.composite
def labelled(draw, *, least: int) -> np.ndarray:
    """Labels with at least `least` rows of each of two classes or more, in any order."""
    counts = draw(st.lists(st.integers(least, least + 30), min_size=2, max_size=5))
    return np.array(draw(st.permutations(np.repeat(np.arange(len(counts)), counts).tolist())))


@st.composite
def grouped(draw) -> tuple[np.ndarray, list[int], int]:
    """Labels, groups and parts, whether or not they can be divided so."""
    rows = draw(st.integers(4, 40))
    labels = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    most = draw(st.sampled_from([3, 8, 40]))
    groups = draw(st.lists(st.integers(0, most), min_size=rows, max_size=rows))
    return np.array(labels), groups, draw(st.integers(2, 4))


def table(labels, groups) -> dict[int, np.ndarray]:
    """Rows of each class, and last of all classes, of each group by first appearance."""
    counts: dict[int, np.ndarray] = {}
    for label, group in zip(labels.tolist(), groups, strict=True):
        row = counts.setdefault(group, np.zeros(labels.max() + 2, dtype=object))
        row[label] += 1
        row[-1] += 1
    return counts


def weights(labels) -> np.ndarray:
    of_class = [-(-len(labels) // max(1, n)) for n in np.bincount(labels).tolist()]
    return np.array([*of_class, 1], dtype=object)


def unbalance(labels, groups, part_of_group, shares) -> Fraction:
    """The sum of squares of the module's page, of groups' parts."""
    counts, total = table(labels, groups), Fraction(0)
    whole = sum(counts.values())
    for part, share in enumerate(shares):
        have = sum(counts[g] for g in counts if part_of_group[g] == part)
        total += (weights(labels) * (have - share * whole) ** 2).sum() / share
    return total


def bound(labels, groups, parts) -> int:
    squares = sum((weights(labels) * row**2).sum() for row in table(labels, groups).values())
    return (parts - 1) * squares


def one_by_one(labels, groups, shares, seed) -> dict[int, int]:
    """The greedy method as one would write it down: try each part, keep the most balanced."""
    counts, weight = table(labels, groups), weights(labels)
    names = [list(counts)[at] for at in permutation(seed, STREAM, len(counts))]
    names.sort(key=lambda g: -(weight * counts[g] ** 2).sum())
    chosen: dict[int, int] = {}
    for name in names:
        done = [g for g in groups if g in chosen or g == name]
        some = labels[[g in chosen or g == name for g in groups]]
        have = {g: row for g, row in counts.items() if g in set(done)}
        whole = sum(have.values())

        def after(part, have=have, whole=whole, name=name):
            tried = chosen | {name: part}
            return sum(
                (weight * (sum((have[g] for g in tried if tried[g] == p), 0 * whole) - s * whole)
                 ** 2).sum() / s
                for p, s in enumerate(shares)
            )  # fmt: skip

        assert len(some) == whole[-1]
        chosen[name] = min(range(len(shares)), key=after)
    return chosen


def classes_of(labels, is_in) -> set[int]:
    return set(labels[is_in].tolist())


def can_be_divided(labels, groups, parts) -> bool:
    names = sorted(set(groups))
    return any(
        all(
            classes_of(labels, [chosen[names.index(g)] == part for g in groups])
            == classes_of(labels, slice(None))
            for part in range(parts)
        )
        for chosen in product(range(parts), repeat=len(names))
    )


@given(labels=labelled(least=5), count=st.integers(2, 5), seed=SEEDS)
@settings(max_examples=100)
def test_folds_differ_by_at_most_one_row_of_each_class_and_of_all(labels, count, seed):
    fold = folds(labels, count=count, seed=seed)
    assert fold.dtype == np.int64
    assert fold.shape == labels.shape
    assert set(fold.tolist()) == set(range(count))  # each row in one fold
    for rows in (labels >= 0, *(labels == each for each in np.unique(labels))):
        held = np.bincount(fold[rows], minlength=count)
        assert held.max() - held.min() <= 1


@given(labels=labelled(least=2), share=st.integers(1, 99), seed=SEEDS)
@settings(max_examples=100)
def test_held_out_rows_are_within_one_row_of_their_share_of_each_class(labels, share, seed):
    is_held = held_out(labels, share=share / 100, seed=seed)
    assert is_held.dtype == np.bool_
    raised = 0
    for each in np.unique(labels):
        rows = int((labels == each).sum())
        held = int(is_held[labels == each].sum())
        assert 1 <= held <= rows - 1
        assert abs(held - rows * share / 100) <= 1
        raised += not 1 <= rows * share / 100 <= rows - 1
    assert abs(is_held.sum() - len(labels) * share / 100) <= 0.5 + raised


@given(case=grouped(), seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_groups_stay_whole_every_part_has_every_class_and_the_parts_are_those_of_the_plain_method(
    case, seed
):
    labels, groups, parts = case
    try:
        fold = folds(labels, groups=groups, count=parts, seed=seed)
    except DataError:
        return  # what is refused, and that it is refused rightly, is for the tests below
    of_group = dict(zip(groups, fold.tolist(), strict=True))
    assert [of_group[g] for g in groups] == fold.tolist()
    assert all(classes_of(labels, fold == p) == set(labels.tolist()) for p in range(parts))
    if len(set(groups)) == len(labels):
        return
    shares = [Fraction(1, parts)] * parts
    plain = one_by_one(labels, groups, shares, seed)
    assert unbalance(labels, groups, plain, shares) <= bound(labels, groups, parts)
    of_row = np.array([plain[g] for g in groups])
    if all(classes_of(labels, of_row == p) == set(labels.tolist()) for p in range(parts)):
        assert of_group == plain


@given(case=grouped(), percent=st.integers(1, 99), seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_a_share_of_groups_is_held_out_as_the_plain_method_would(case, percent, seed):
    labels, groups, _ = case
    try:
        is_held = held_out(labels, groups=groups, share=percent / 100, seed=seed)
    except DataError:
        return
    of_group = dict(zip(groups, is_held.astype(int).tolist(), strict=True))
    assert [of_group[g] for g in groups] == is_held.astype(int).tolist()
    assert classes_of(labels, is_held) == classes_of(labels, ~is_held) == set(labels.tolist())
    if len(set(groups)) == len(labels):
        return
    shares = [Fraction(100 - percent, 100), Fraction(percent, 100)]
    plain = one_by_one(labels, groups, shares, seed)
    assert unbalance(labels, groups, plain, shares) <= bound(labels, groups, 2)
    of_row = np.array([plain[g] for g in groups])
    if classes_of(labels, of_row == 0) == classes_of(labels, of_row == 1) == set(labels.tolist()):
        assert of_group == plain


def test_most_drawn_cases_can_be_divided_and_none_is_refused_that_could_be():
    draw = np.random.default_rng(0)
    divided = refused = 0
    for _ in range(1500):
        rows, parts = int(draw.integers(4, 12)), int(draw.integers(2, 4))
        labels, groups = draw.integers(0, 3, rows), draw.integers(0, 6, rows).tolist()
        try:
            folds(labels, groups=groups, count=parts, seed=0)
            divided += 1
        except DataError as error:
            refused += 1
            is_one_class = "nothing to tell apart" in str(error)
            assert is_one_class or not can_be_divided(labels, groups, parts)
    assert divided > 300
    assert refused > 300


def test_a_group_moves_when_the_plain_method_leaves_a_part_without_a_class():
    labels, groups = np.array([2, 2, 0, 0, 2, 0]), [1, 1, 2, 0, 0, 2]
    plain = one_by_one(labels, groups, [Fraction(1, 2)] * 2, 0)
    assert any(
        classes_of(labels, [plain[g] == part for g in groups]) != {0, 2} for part in range(2)
    )
    fold = folds(labels, groups=groups, count=2, seed=0)
    assert classes_of(labels, fold == 0) == classes_of(labels, fold == 1) == {0, 2}


@given(groups=st.integers(5, 60), parts=st.integers(2, 5), size=st.integers(1, 4), seed=SEEDS)
@settings(max_examples=50)
def test_groups_that_are_alike_are_dealt_as_rows_are(groups, parts, size, seed):
    labels = np.tile(np.repeat([0, 1, 2], size), groups)
    premise = np.repeat(np.arange(groups), 3 * size)
    fold = folds(labels, groups=premise, count=parts, seed=seed)
    for each in range(3):
        held = np.bincount(fold[labels == each], minlength=parts) / size
        assert sorted(held.tolist()) == sorted(len(range(p, groups, parts)) for p in range(parts))


def test_parts_are_functions_of_the_seed_and_golden_ones_never_change():
    labels = np.array([0, 1, 0, 1, 2, 0, 1, 2, 2, 0, 0, 1])
    groups = ["a", "a", "b", "c", "c", "d", "e", "e", "b", "f", None, None]
    assert folds(labels, count=3, seed=1337).tolist() == [2, 1, 0, 0, 1, 1, 2, 2, 0, 1, 0, 2]
    assert folds(labels, groups=groups, count=2, seed=1337).tolist() == [
        1,
        1,
        0,
        1,
        1,
        1,
        0,
        0,
        0,
        1,
        0,
        0,
    ]
    assert held_out(labels, share=0.25, seed=1337).nonzero()[0].tolist() == [2, 6, 8]
    assert held_out(labels, groups=groups, share=0.25, seed=1337).nonzero()[0].tolist() == [
        2,
        8,
        11,
    ]
    drawn = {tuple(folds(labels, count=3, seed=seed).tolist()) for seed in range(20)}
    assert len(drawn) > 10


def test_rows_without_a_group_stand_for_themselves():
    labels = np.array([0, 1] * 20)
    alone = folds(labels, count=4, seed=5)
    for groups in ([None] * 40, list(range(40)), np.array([f"g{at}" for at in range(40)])):
        assert (folds(labels, groups=groups, count=4, seed=5) == alone).all()


def test_labels_may_be_of_any_integer_type_and_classes_may_be_missing_in_between():
    labels = np.array([0, 0, 250, 250, 250, 0] * 5)
    for kind in (np.uint8, np.int32, np.int64):
        fold = folds(labels.astype(kind), groups=[at // 3 for at in range(30)], count=5, seed=0)
        assert [np.bincount(fold[labels == each]).tolist() for each in (0, 250)] == [[3] * 5] * 2


@pytest.mark.parametrize(
    ("labels", "groups", "said"),
    [
        ([], None, "^0 rows cannot be divided into 3 folds; add rows$"),
        ([0, 1], None, "^2 rows cannot be divided into 3 folds; add rows$"),
        ([1] * 9, None, "^all 9 rows are of class 'yes': there is nothing to tell apart; check "),
        ([0, 0, 1, 1, 1], None, "^3 folds: each needs a row of every class, and 'no' has 2; ask "),
        ([0, 0, 1, 1, 2], None, "and 'no' has 2, 'yes' has 2, 'rare' has 1; ask for fewer folds,"),
        (
            [0, 0, 0, 1, 1, 1, 2, 2, 2],
            [1, 1, 1, 2, 3, 4, 5, 5, 6],
            "^3 folds: each needs groups with every class, and there are 3 rows of 'no' in 1 group,"
            " 3 rows of 'rare' in 2 groups; ask for fewer folds, add groups, or divide the rows wi",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused_with_what_to_do(labels, groups, said):
    labels = np.array(labels, dtype=np.int64)
    with pytest.raises(DataError, match=said):
        folds(labels, groups=groups, count=3, seed=0, names=["no", "yes", "rare"])


def test_where_groups_leave_no_way_it_is_said():
    labels, groups = np.array([2, 0, 0, 1, 1, 2]), [1, 3, 0, 1, 0, 3]
    assert not can_be_divided(labels, groups, 2)
    with pytest.raises(
        DataError, match=r"no way was found .* groups stay whole; .* missing is '1'"
    ):
        folds(labels, groups=groups, count=2, seed=0)


def test_only_some_of_many_small_classes_are_named():
    labels = np.append(np.arange(8), [8, 8])
    with pytest.raises(DataError, match=r"'0' has 1, .*'4' has 1 \(and 3 more\); name a file of"):
        held_out(labels, share=0.2, seed=0)


def test_a_count_or_share_that_makes_no_parts_is_refused():
    labels = np.array([0, 0, 1, 1])
    with pytest.raises(ConfigError, match="folds: expected 2 or more, got 1"):
        folds(labels, count=1, seed=0)
    for share in (0.0, 1.0, -0.5, 0.00001, 0.99999):
        with pytest.raises(ConfigError, match=f"between 0 and 1, got {share}"):
            held_out(labels, share=share, seed=0)
