from types import SimpleNamespace

import pytest

from hotloop.engine.evaluate import Evaluation
from hotloop.engine.validation_remarks import ValidationRemarks
from hotloop.session.job import ValidationMetrics

ROWS = 40


def judge(share="accuracy"):
    return ValidationMetrics(
        start=lambda device: None, figures=lambda counts: {}, score="f1", share_of_rows=share
    )


def closing(*right, judge=None, best=0):
    """Return what is said after validations with these numbers of right answers."""
    remarks = ValidationRemarks(judge)
    for at, each in enumerate(right):
        figures = {"accuracy": each / ROWS, "f1": each / ROWS}
        evaluation = Evaluation(loss=1 - each / ROWS, targets=ROWS, figures=figures)
        place = {"step": 10 * at, "best_step": 10 * min(at, best), "epoch": at, "best_score": None}
        position = SimpleNamespace(**place)
        assert remarks.after(position, evaluation, 1.0) is None
    return remarks.closing(position, trained=True)


def test_nothing_is_said_if_the_last_validation_is_the_best():
    assert ValidationRemarks(None).closing(SimpleNamespace(best_score=None), trained=False) == []
    assert closing(20, 30, judge=judge(), best=1) == []


@pytest.mark.parametrize(("lead", "is_told_apart"), [(0, False), (5, False), (6, True)])
def test_a_lead_of_six_rows_is_the_first_that_a_sign_test_can_tell(lead, is_told_apart):
    ((text, warning),) = closing(30, 30 - lead, judge=judge())
    assert not warning
    assert text.startswith("the best validation is that of step 0 (f1 0.7500); the last, of step")
    assert ("may be chance" in text) != is_told_apart
    assert (f"They differ by {lead} right answers on 40 rows" in text) != is_told_apart


def test_a_loss_is_no_share_of_rows():
    ((text, _),) = closing(30, 29)
    assert text == (
        "the best validation is that of step 0 (loss 0.2500); the last, of step 10, has 0.2750"
    )
    ((text, _),) = closing(30, 29, judge=judge(share=None))
    assert "chance" not in text
