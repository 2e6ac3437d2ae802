"""What is said of a validation loss that rises while the training loss falls."""

import pytest

from hotloop.core.overfitting import Overfitting


def said(*pairs):
    watch = Overfitting()
    return [watch.after(training, validation) for training, validation in pairs]


def test_three_rises_in_a_row_are_said_once():
    texts = said((2, 1.0), (1.5, 0.8), (1.2, 0.9), (1.0, 1.0), (0.8, 1.1), (0.6, 1.2), (0.5, 1.3))
    assert [at for at, text in enumerate(texts) if text] == [4]
    assert "risen 3 times in a row, from 0.8 to 1.1" in texts[4]
    assert "training loss fell from 1.5 to 0.8" in texts[4]


@pytest.mark.parametrize(
    "pairs",
    [
        [(2, 1.0), (1.5, 0.9), (1.2, 0.8), (1.0, 0.7), (0.9, 0.8), (0.8, 0.9)],  # two rises
        [(2, 1.0), (1.5, 1.1), (1.2, 1.2), (1.3, 1.3), (1.1, 1.2)],  # it did not fall throughout
        [(None, 1.0), (None, 1.1), (None, 1.2), (None, 1.3), (1.0, 1.4)],  # nothing was trained
    ],
)
def test_anything_else_is_not_said(pairs):
    assert not any(said(*pairs))
