"""Which calls of the project's own functions count as repeated."""

import sys

import numpy as np
import pytest
import torch

from hotloop.observe.ledger.python_calls import PythonCalls

TEXT = "to be or not to be that is the question " * 20


class Reader:
    """Something that is called for what it changes."""

    def __init__(self) -> None:
        self.count = 0

    def words(self, text):
        return text.split()

    def advance(self):
        self.count += 1
        return True

    def numbers(self):
        self.count += 1
        return list(range(self.count, self.count + 20))


def cut(text, start):
    return text[start : start + 30]


def array(rows):
    return rows * 2


READER = Reader()


@pytest.mark.parametrize(
    ("call", "share"),
    [
        (lambda step: READER.words(TEXT), 1.0),
        (lambda step: READER.words(TEXT + str(step)), 0.0),
        (lambda step: [READER.words(TEXT + str(step)), READER.words(TEXT + str(step))], 0.5),
        (lambda step: cut(TEXT, 3), 1.0),
        (lambda step: cut(TEXT, step), 0.0),
        (lambda step: READER.advance(), 0.0),
        (lambda step: READER.numbers(), 0.0),
        (lambda step: array(np.ones((4, 4))), 1.0),
        (lambda step: array(np.full((4, 4), step)), 0.0),
        (lambda step: array(torch.ones(4, 4)), 1.0),
        (lambda step: array(torch.full((4, 4), step)), 0.0),
    ],
)
def test_a_call_is_repeated_if_arguments_and_result_were_there_before(call, share):
    step = 0
    calls = PythonCalls(lambda: step)
    calls.start()
    try:
        for step in range(3):
            call(step)
    finally:
        calls.stop()
    assert calls.fault is None
    assert sum(calls.again().values()) == pytest.approx(share)


def test_a_script_that_is_profiled_is_left_alone():
    seen = []

    def ours(*event):
        seen.append(event[1])

    sys.setprofile(ours)
    try:
        calls = PythonCalls(lambda: 0)
        calls.start()
        cut(TEXT, 3)
        calls.stop()
        assert sys.getprofile() is ours
    finally:
        sys.setprofile(None)
    assert not calls.again()
    assert "call" in seen
