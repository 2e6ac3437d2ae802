"""When enough has been seen of a script that may be stopped."""

import pytest

from hotloop.observe.hooks.event_buffer import BITS, EventCode
from hotloop.observe.when_to_stop import has_evaluated, is_steady


def updates(seconds: list[float]) -> list[int]:
    at, marks = 0.0, []
    for each in seconds:
        at += each
        marks.append(int(at * 1e9) << BITS | EventCode.UPDATE_END)
    return marks


@pytest.mark.parametrize(
    ("seconds", "steady"),
    [
        ([0.1] * 50, True),
        ([0.1] * 20, False),  # too few
        ([0.01] * 100, False),  # too short a time
        ([0.2] * 25 + [0.1] * 30, False),  # it becomes faster
        ([0.1] * 30 + [5.0] + [0.1] * 30, True),  # one slow step is none of the usual
    ],
)
def test_steps_are_steady_when_the_first_half_took_as_long(seconds, steady):
    assert is_steady(updates(seconds)) is steady


def test_a_forward_pass_without_gradients_is_an_evaluation():
    assert not has_evaluated(updates([0.1] * 9))
    assert has_evaluated([*updates([0.1] * 9), 1 << BITS | 3 << 5 | EventCode.EVAL])
    assert has_evaluated([1 << BITS | EventCode.SILENT])
