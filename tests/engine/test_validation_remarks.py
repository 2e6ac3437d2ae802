from types import SimpleNamespace

import pytest
import torch

from hotloop.engine.evaluate import Evaluation
from hotloop.engine.validation_remarks import ValidationRemarks
from hotloop.session.job import ValidationMetrics

JUDGE = ValidationMetrics(
    start=lambda device: torch.zeros(1), figures=lambda counts: {}, score="f1"
)


def position(step, best_step, best=0.75):
    known = {"best_score": best, "best_loss": 1 - best, "best_step": best_step}
    return SimpleNamespace(step=step, epoch=1, **known)


def closing(*right, judge=JUDGE, counted=True):
    """Return what is said after validations with these right answers; the first is the best."""
    remarks = ValidationRemarks(judge)
    for at, each in enumerate(right):
        share = sum(each) / 40
        evaluation = Evaluation(
            loss=1 - share, targets=40, figures={"f1": share}, right=each if counted else None
        )
        assert remarks.after(position(10 * at, 0), evaluation, 1.0) is None
    return remarks.closing(position(10 * at, 0), trained=True)


def test_nothing_is_said_if_the_last_validation_is_the_best_or_nothing_was_trained():
    remarks = ValidationRemarks(JUDGE)
    assert remarks.closing(position(5, None), trained=False) == []
    assert closing((10, 20)) == []


@pytest.mark.parametrize(
    ("last", "differ", "is_told_apart"),
    [((10, 20), 0, False), ((12, 17), 5, False), ((12, 16), 6, True), ((5, 25), 10, True)],
)
def test_six_right_answers_are_the_fewest_that_a_sign_test_can_tell(last, differ, is_told_apart):
    """Counted class by class: 30 right answers of both may be another 30."""
    ((text, warning),) = closing((10, 20), last)
    assert not warning
    assert text.startswith(
        "the best validation is that of step 0 (f1 0.7500); the last, of step 10"
    )
    assert ("may be chance" in text) != is_told_apart
    assert (f"Their right answers differ by {differ} of 40 rows" in text) != is_told_apart


def test_a_loss_has_no_right_answers():
    ((text, _),) = closing((10, 20), (10, 19), judge=None, counted=False)
    assert text == (
        "the best validation is that of step 0 (loss 0.2500); the last, of step 10, has 0.2750"
    )


def test_a_best_validation_before_an_interruption_counts_too():
    remarks = ValidationRemarks(JUDGE)
    evaluation = Evaluation(loss=0.3, targets=40, figures={"f1": 0.7}, right=(10, 18))
    remarks.after(position(20, 10), evaluation, 1.0)
    ((text, _),) = remarks.closing(position(20, 10), trained=True)
    assert text.startswith(
        "the best validation is that of step 10 (f1 0.7500); the last, of step 20"
    )
    assert "chance" not in text
