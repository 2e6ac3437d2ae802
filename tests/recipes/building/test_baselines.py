import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.recipes.building.baselines import BAG_OF_WORDS, MAJORITY, SECOND_TEXT, baselines

WORDS = ["good", "bad", "not", "film", "a", "the", "."]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def labelled(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def features(text) -> set:
    found = set()
    for part, one in enumerate((text,) if isinstance(text, str) else text):
        words = one.split()
        found |= {(part, word) for word in words}
        found |= {(part, *pair) for pair in pairwise(words)}
    return found


def naive_bayes(train, labels, test, classes: int) -> list[list[float]]:
    """Log probabilities [texts, classes] as a textbook has them, without hashing."""
    counts = [Counter() for _ in range(classes)]
    for text, label in zip(train, labels, strict=True):
        counts[label].update(features(text))
    known = set().union(*counts)
    return [
        [
            (math.log(labels.count(at) / len(labels)) if labels.count(at) else -math.inf)
            + sum(
                math.log((counts[at][each] + 1) / (counts[at].total() + len(known)))
                for each in features(text) & known
            )
            for at in range(classes)
        ]
        for text in test
    ]


@pytest.mark.parametrize("kind", [TEXTS, st.tuples(TEXTS, TEXTS)], ids=["texts", "pairs"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_bag_of_words_is_naive_bayes_as_a_textbook_has_it(kind, data):
    train = data.draw(st.lists(st.tuples(kind, st.integers(0, 2)), min_size=1, max_size=12))
    test = data.draw(st.lists(kind, min_size=1, max_size=8))
    texts, labels = [text for text, _ in train], [label for _, label in train]
    clear, expected = [], [0, 0, 0]
    for text, chances in zip(test, naive_bayes(texts, labels, test, 3), strict=True):
        best, second = sorted(chances)[:-3:-1]
        if best - second > 1e-9:  # in a tie either is right
            clear.append(text)
            expected[chances.index(best)] += 1
    zeros = labelled([0] * len(clear))
    found = baselines(texts, labelled(labels), clear, zeros, names=list("abc"))[BAG_OF_WORDS]
    assert [each.predicted for each in found.classes] == expected


def test_the_majority_class_is_that_of_the_training_rows():
    found = baselines(
        ["x"] * 5, labelled([0, 1, 1, 2, 1]), ["x"] * 4, labelled([0, 0, 1, 2]), names=list("abc")
    )[MAJORITY]
    assert [each.predicted for each in found.classes] == [0, 4, 0]
    assert found.accuracy == 0.25
    assert found.macro_f1 == pytest.approx(0.4 / 3)


def test_neighbouring_words_are_told_from_the_same_words_apart():
    train = ["not good and bad", "good and not bad"] * 3
    found = baselines(
        train, labelled([0, 1] * 3), ["not good", "not bad"], labelled([0, 1]), names=["-", "+"]
    )
    assert found[BAG_OF_WORDS].accuracy == 1


def test_of_pairs_the_second_text_is_tried_alone():
    first = ["one", "two", "three", "four"]
    train = [(a, b) for a in first for b in ("yes", "no")]
    labels = labelled([1, 0] * 4)
    found = baselines(train, labels, [("five", "no"), ("yes", "yes")], labelled([0, 1]), names="ab")
    assert list(found) == [MAJORITY, BAG_OF_WORDS, SECOND_TEXT]
    assert found[BAG_OF_WORDS].accuracy == found[SECOND_TEXT].accuracy == 1
    # Where the first text tells, and the second does not, the second alone is a guess.
    swapped = [(b, a) for a, b in train]
    found = baselines(
        swapped, labels, [("no", "one"), ("yes", "one")], labelled([0, 1]), names="ab"
    )
    assert found[BAG_OF_WORDS].accuracy == 1
    assert found[SECOND_TEXT].accuracy == 0.5


def test_texts_without_a_word_and_classes_without_a_row_are_no_trouble():
    found = baselines(["", "x"], labelled([1, 1]), ["", "y z"], labelled([0, 1]), names=list("abc"))
    assert [each.predicted for each in found[BAG_OF_WORDS].classes] == [0, 2, 0]


def test_the_texts_of_a_second_portion_count_as_those_of_the_first():
    train = ["w"] * 5000 + ["v"] * 5000  # more than are looked at at once
    labels = labelled([0] * 5000 + [1] * 5000)
    found = baselines(train, labels, train, labels, names=["w", "v"])
    assert found[BAG_OF_WORDS].accuracy == 1
