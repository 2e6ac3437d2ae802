"""What the demo says in the end, and with which exit code."""

from dataclasses import replace

import pytest
from benchmarks.demo import outcome
from tests.core.test_tuned import BASE, FOUND, PROOF, TRIED

KEPT = replace(TRIED, name="sample-cache")
UNSURE = replace(
    FOUND,
    plan=BASE,
    rows=(KEPT,),
    proof=replace(PROOF, name="sample-cache", decision="cannot be told", why="noise"),
)


def without_proof(decision):
    return replace(UNSURE, rows=(replace(KEPT, decision=decision),), proof=None)


@pytest.mark.parametrize(
    ("tuned", "after", "equal", "code", "said"),
    [
        (FOUND, 4.0, True, 0, "the same, byte for byte"),
        (FOUND, 12.0, True, 1, "the whole run is NOT faster"),
        (FOUND, 4.0, False, 1, "what it saved is NOT the same"),
        (UNSURE, 10.0, True, 0, "UNKNOWN: it is not known whether"),
        (replace(UNSURE, rows=(), proof=None), 10.0, True, 0, "UNKNOWN: nothing was tried"),
        (without_proof("cannot be told"), 10.0, True, 0, "UNKNOWN: nothing was shown"),
        (without_proof("not tried"), 10.0, True, 0, "UNKNOWN: "),
        (without_proof("refused"), 10.0, True, 1, "no plan was proved: nothing"),
        (without_proof("dropped"), 10.0, True, 1, "no plan was proved: nothing"),
    ],
)
def test_the_demo_ends_with_what_was_proved(tuned, after, equal, code, said):
    found, sentence = outcome(tuned, 10.0, after, equal=equal)
    assert found == code
    assert said in sentence
