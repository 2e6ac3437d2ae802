import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.sampling.label_classes import Classes, balanced, find_classes


def line(row: int) -> RowLocation:
    return RowLocation("rows.jsonl", row + 1, None, "label")


@pytest.mark.parametrize(
    ("labels", "classes", "names", "numbers"),
    [
        (["b", "a", "b"], ("a", "b"), ("a", "b"), [1, 0, 1]),
        ([10, 9, -1, 9], (-1, 9, 10), ("-1", "9", "10"), [2, 1, 0, 1]),
        ([True, False], (False, True), ("false", "true"), [1, 0]),
        (["10", "9"], ("10", "9"), ("10", "9"), [0, 1]),
    ],
)
def test_classes_are_the_different_labels_in_order(labels, classes, names, numbers):
    found = find_classes(labels, place=line)
    assert found == Classes(labels=classes)
    assert list(map(type, found.labels)) == list(map(type, classes))  # True is no 1
    assert found.names == names
    assert found.numbers(labels, place=line).tolist() == numbers
    assert found.numbers(labels, place=line).dtype == np.int64


@given(
    labels=st.lists(st.text(min_size=1).filter(str.strip), min_size=2).filter(
        lambda x: len(set(x)) > 1
    )
)
@settings(max_examples=50)
def test_the_number_of_a_row_names_its_label(labels):
    found = find_classes(labels, place=line)
    assert [found.labels[at] for at in found.numbers(labels, place=line)] == labels
    assert find_classes(labels[::-1], place=line) == found


@pytest.mark.parametrize(
    ("labels", "kinds", "said"),
    [
        (["a", "b", 1], "1 mixed label types", "rows.jsonl:3: label: the label is 1, but most"),
        ([0, 1, "0", 1], "1 mixed label types", ":3: label: the label is '0', but most are a "),
        ([True, False, 1], "1 mixed label types", ":3: label: the label is 1, but most are tr"),
        ([1, 0, True], "1 mixed label types", ":3: label: the label is true, but most are a "),
        (["a", None, "b"], "1 without a label", r":2: label: the label is nothing \(null\)"),
        (["a", " ", "b"], "1 without a label", ":2: label: the label is empty"),
        ([0, float("nan"), 1], "1 not a label", ":2: label: the label is nan, not text, a who"),
        ([0, ["a"], 1], "1 not a label", ":2: label: the label is a list, not text"),
        ([None, None], "2 without a label", r":1: label: the label is nothing \(null\)"),
        ([0.5, 1.5], "2 not a label", ":1: label: the label is 0.5, not text"),
    ],
)  # fmt: skip
def test_a_label_that_is_none_is_named_with_its_place(labels, kinds, said):
    with pytest.raises(DataError, match=kinds) as raised:
        find_classes(labels, place=line)
    assert raised.match(said)
    assert raised.match("correct them")


def test_all_bad_rows_are_counted_and_the_first_are_listed():
    labels = [*["a", "b"] * 50, *[None] * 30, 7]
    with pytest.raises(DataError, match=r"31 bad rows: 30 without a label, 1 mixed") as raised:
        find_classes(labels, place=line)
    assert raised.match(r"\(20 of 31 listed\)")
    assert str(raised.value).count("rows.jsonl:") == 20


@pytest.mark.parametrize(
    ("labels", "said"),
    [([], "^there is no row: a classifier needs two"), (["a"] * 3, "^all labels are 'a': a ")],
)
def test_there_must_be_two_classes(labels, said):
    with pytest.raises(DataError, match=said):
        find_classes(labels, place=line)


def test_labels_of_other_rows_must_be_among_the_classes():
    found = find_classes(["entailment", "neutral"], place=line)
    with pytest.raises(DataError, match="2 bad rows: 2 not one of the classes") as raised:
        found.numbers(["neutral", "nuetral", 1], place=line)
    assert raised.match(
        ":2: label: the label is 'nuetral', not one of 'entailment', 'neutral'; did"
    )
    assert raised.match(":3: label: the label is 1, not one of 'entailment', 'neutral'")
    with pytest.raises(DataError, match="the label is true, not one of 0, 1"):
        find_classes([0, 1], place=line).numbers([True], place=line)


def test_of_many_classes_a_message_names_some():
    with pytest.raises(DataError, match=r"not one of 0, 1, .* 11 and 18 more$|11 and 18 more\n"):
        find_classes(list(range(30)), place=line).numbers([99], place=line)


def test_balanced_weights_are_those_of_scikit_learn():
    # https://scikit-learn.org/stable/modules/generated/
    # sklearn.utils.class_weight.compute_class_weight.html: y = [1, 1, 1, 1, 0, 0], 2026-11
    assert balanced(np.array([2, 4]), names=["0", "1"]).tolist() == [1.5, 0.75]


@given(counts=st.lists(st.integers(1, 10**6), min_size=2, max_size=20))
@settings(max_examples=50)
def test_balanced_weights_give_each_class_the_same_say_and_a_row_1_in_the_mean(counts):
    found = balanced(np.array(counts), names=[str(at) for at in range(len(counts))])
    assert found * counts == pytest.approx(sum(counts) / len(counts))
    assert (found * counts).sum() / sum(counts) == pytest.approx(1)


def test_a_class_without_a_row_has_no_balanced_weight():
    with pytest.raises(DataError, match="got none of 'b'; add rows of it, or set the weights"):
        balanced(np.array([3, 0, 1]), names=["a", "b", "c"])
