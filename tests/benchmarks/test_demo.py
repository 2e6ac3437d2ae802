"""What the demo says in the end, and with which exit code."""

from dataclasses import replace

import pytest
from benchmarks.demo import outcome
from tests.core.test_tuned import BASE, FOUND, PROOF, TRIED

UNSURE = replace(FOUND, plan=BASE, proof=replace(PROOF, decision="cannot be told", why="noise"))


@pytest.mark.parametrize(
    ("tuned", "after", "equal", "code", "said"),
    [
        (FOUND, 4.0, True, 0, "the same, byte for byte"),
        (FOUND, 12.0, True, 1, "the whole run is NOT faster"),
        (FOUND, 4.0, False, 1, "what it saved is NOT the same"),
        (UNSURE, 10.0, True, 0, "UNKNOWN: it is not known whether"),
        (replace(UNSURE, proof=None, stopped="stopped"), 10.0, True, 0, "UNKNOWN: "),
        (
            replace(FOUND, plan=BASE, proof=None, rows=(replace(TRIED, decision="refused"),)),
            10.0,
            True,
            1,
            "no plan was proved: nothing that was tried is worth it",
        ),
    ],
)
def test_the_demo_ends_with_what_was_proved(tuned, after, equal, code, said):
    found, sentence = outcome(tuned, 10.0, after, equal=equal)
    assert found == code
    assert said in sentence
