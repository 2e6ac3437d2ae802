"""What becomes of a process that broke off, and what a run with another batch tells."""

from dataclasses import replace

import pytest
from tests.rehearse.test_verdicts import RAN

from hotloop.core.case.environment import Raised
from hotloop.core.case.rehearsal import CardDiagnosis, CardFinding
from hotloop.core.codec import to_json
from hotloop.core.errors import HotloopError
from hotloop.process.child import Outcome
from hotloop.rehearse.rehearse import _run_of, _trial, _whole, _without_host_limit

GIB = 1 << 30


def test_a_result_is_read_back():
    assert _run_of(Outcome(status="ok", result=to_json(RAN))) == RAN


def test_a_process_that_broke_off_leaves_its_last_words():
    ended = Outcome(
        status="killed", reason="it was killed by SIGSEGV", stderr="first\nlast words\n"
    )
    with pytest.raises(
        HotloopError, match="broke off: it was killed by SIGSEGV\nfirst\nlast words"
    ):
        _run_of(ended)
    with pytest.raises(KeyboardInterrupt):
        _whole(Outcome(status="interrupted"))


@pytest.mark.parametrize(
    ("run", "fits", "why"),
    [
        (RAN, True, None),
        (replace(RAN, peak_reserved=9 * GIB), False, None),
        (replace(RAN, raised=Raised(kind="OutOfMemoryError", text="CUDA out")), False, None),
        (
            replace(RAN, raised=Raised(kind="ValueError", text="no")),
            None,
            "with a batch of 64 it raised ValueError: no",
        ),
        (
            replace(RAN, steps=(), ended="300 s were over"),
            None,
            "with a batch of 64 no step was counted: 300 s were over",
        ),
    ],
)
def test_what_a_run_with_another_batch_tells(run, fits, why):
    trial = _trial(64, run, memory=8 * GIB)
    assert (trial.batch, trial.fits, trial.why_not) == (64, fits, why)


def test_that_the_host_limits_is_not_said_beyond_the_estimate():
    one, ten = (
        CardFinding(rule=rule, severity="warn", claim="") for rule in ("H1 launch_bound", "H15 x")
    )
    found = CardDiagnosis(steps=9, findings=(one, ten))
    assert _without_host_limit(found).findings == (ten,)
