"""What is said of validations that get worse while the training loss falls."""

import itertools
import random

import pytest

from hotloop.core.overfitting import Overfitting, rises


def said(*pairs, score=None):
    watch, best, texts = Overfitting(), None, []
    for training, value in pairs:
        cost = value if score is None else -value
        is_best = best is None or cost < best
        best = cost if is_best else best
        texts.append(watch.after(training, value, best=is_best, score=score))
    return texts


def falling(*values):
    return [(2 - at / 10, value) for at, value in enumerate(values)]


def test_a_rise_is_said_once():
    again = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
    texts = said(*falling(1.0, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, *again))
    assert [at for at, text in enumerate(texts) if text] == [7]
    assert "loss rises since the best validation, from 0.8 to 1.4 6 validations later" in texts[7]
    assert "training loss falls from 1.9 to 1.3" in texts[7]


def test_a_rise_need_not_be_steady():
    """Validations of a model of 128 channels on 1,350 characters drawn by chance."""
    losses = (2.063, 2.06, 2.134, 2.24, 2.219, 2.262, 2.318, 2.3, 2.358, 2.397)
    assert [at for at, text in enumerate(said(*falling(*losses))) if text] == [8]


def test_a_score_gets_worse_by_falling():
    values = (0.7, 0.8, 0.79, 0.78, 0.77, 0.75, 0.74, 0.7)
    texts = said(*falling(*values), score="macro_f1")
    assert [at for at, text in enumerate(texts) if text] == [7]
    assert texts[7].startswith("macro_f1 falls since the best validation, from 0.8 to 0.7")
    assert not any(said(*falling(*sorted(values)), score="macro_f1"))


@pytest.mark.parametrize(
    "pairs",
    [
        falling(1.0, 0.9, 0.8, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2),  # five
        falling(1.0, 0.7, 0.9, 1.1, 0.8, 1.0, 0.9, 1.0, 0.9),  # up and down
        [(1.0, 1.0 + at / 10) for at in range(9)],  # the training loss stands
        [(None, 1.0 + at / 10) for at in range(9)],  # nothing was trained
    ],
)
def test_anything_else_is_not_said(pairs):
    assert not any(said(*pairs))


@pytest.mark.parametrize("count", [6, 7])
def test_of_all_orders_at_most_1_percent_rise(count):
    orders = list(itertools.permutations(range(count)))
    assert 0 < sum(map(rises, orders)) / len(orders) <= 0.01
    assert rises(range(count))
    assert not rises(range(5))
    assert not rises([1.0] * count)


def test_of_ten_values_by_chance_few_rise():
    draw = random.Random(0)
    found = sum(rises([draw.random() for _ in range(10)]) for _ in range(4000)) / 4000
    assert 0.002 < found < 0.015
