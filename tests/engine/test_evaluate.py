from dataclasses import replace

import pytest
import torch
from torch import nn

from hotloop.core.errors import DataError
from hotloop.core.hardware import Hardware
from hotloop.engine.evaluate import Evaluation, evaluate, judged
from hotloop.session.accumulation_windows import Position
from hotloop.session.batch import Batch
from hotloop.session.job import Job, ValidationMetrics
from hotloop.session.session import Session


class Rows:
    """Row i holds the number i, and carries loss when it is `learned`."""

    fingerprint, in_memory = "numbers", True

    def __init__(self, count, learned=lambda i: True):
        self.count, self.learned = count, learned

    def __len__(self):
        return self.count

    def batch(self, epoch, first, count):
        rows = torch.arange(first, first + count, dtype=torch.float32)
        keep = torch.tensor([self.learned(i) for i in range(first, first + count)])
        return Batch(
            tensors={"x": rows, "keep": keep},
            samples=count,
            tokens=count,
            targets=int(keep.sum()),
        )


def session(**job):
    def loss(model, tensors):
        if "counts" in tensors:
            tensors["counts"].add_(tensors["x"].sum())
        return tensors["x"][tensors["keep"]].sum() / tensors["keep"].sum().clamp(min=1)

    made = Job(
        name="", model=None, loss=loss, optimizer=None, train=None, valid=None, seed=0, **job
    )
    return Session(
        job=made,
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=nn.Linear(1, 1),
        micro_batch=4,
        accumulation=1,
        forward=lambda tensors: loss(None, tensors),
    )


def test_the_mean_is_over_targets_whatever_the_micro_batches():
    rows = Rows(10, learned=lambda i: i % 3 == 0)
    whole = evaluate(session(), rows, lambda: None, batches=None)
    assert whole == Evaluation(loss=4.5, targets=4)  # 0, 3, 6, 9
    part = evaluate(session(), rows, lambda: None, batches=2)
    assert part == Evaluation(loss=3.0, targets=3)


def test_rows_are_cut_as_the_job_says():
    cuts = []

    def in_two(samples, epoch, first, count, micro_batch):
        cuts.append((first, count, micro_batch))
        return [(0, 7), (7, 3)] if count == 10 else [(0, count)]

    found = evaluate(session(cut=in_two), Rows(10), lambda: None, batches=1)
    assert (found.loss, found.targets) == (3.0, 7)
    assert cuts == [(0, 10, 4), (0, 7, 4)], "the first micro batch, cut as passes are"


def test_fewer_rows_in_a_pass_are_as_many_in_all():
    small = replace(session(), micro_batch=2)
    whole = evaluate(session(), Rows(10), lambda: None, batches=2)
    found = evaluate(small, Rows(10), lambda: None, batches=2, micro_batch=4)
    assert found.targets == whole.targets == 8


def test_rows_without_any_loss_are_refused_and_the_model_trains_on():
    one = session()
    with pytest.raises(DataError, match="nothing of numbers carries loss"):
        evaluate(one, Rows(3, learned=lambda i: False), lambda: None, batches=None)
    assert one.model.training


SUMS = ValidationMetrics(
    start=lambda device: torch.zeros((), device=device),
    figures=lambda counts: {"sum": float(counts)},
    score="sum",
)


def test_a_judge_sees_what_all_batches_count():
    found = evaluate(session(judge=SUMS), Rows(10), lambda: None, batches=None)
    assert found.figures == {"sum": 45.0}


def test_without_a_judge_the_lowest_loss_is_the_best():
    at, best = judged(Position(step=1), Evaluation(loss=2.0, targets=1), None, 0.5)
    assert (best, at.best_loss, at.best_step, at.reference, at.stale) == (True, 2.0, 1, 2.0, 0)
    at, best = judged(replace(at, step=2), Evaluation(loss=1.7, targets=1), None, 0.5)
    assert (best, at.best_loss, at.reference, at.stale) == (True, 1.7, 2.0, 1)  # too small a step
    at, best = judged(replace(at, step=3), Evaluation(loss=1.8, targets=1), None, 0.5)
    assert (best, at.best_loss, at.best_step, at.stale, at.evaluated) == (False, 1.7, 2, 2, 3)


def test_with_a_judge_the_highest_score_is_the_best_whatever_the_loss():
    def found(loss, score):
        return Evaluation(loss=loss, targets=1, figures={"sum": score})

    at, best = judged(Position(step=1), found(2.0, 0.0), SUMS, 0.1)
    assert (best, at.best_score, at.best_loss) == (True, 0.0, 2.0)
    at, best = judged(replace(at, step=2), found(1.0, -0.5), SUMS, 0.1)
    assert (best, at.best_score, at.best_loss, at.stale) == (False, 0.0, 2.0, 1)
    at, best = judged(replace(at, step=3), found(3.0, 0.4), SUMS, 0.1)
    assert (best, at.best_score, at.best_loss, at.stale, at.best_step) == (True, 0.4, 3.0, 0, 3)


def test_a_score_without_a_value_is_neither_the_best_nor_progress():
    none = Evaluation(loss=1.0, targets=1, figures={"sum": None})
    at, best = judged(Position(step=1), none, SUMS, 0.0)
    assert (best, at.best_step, at.reference, at.stale, at.evaluated) == (False, None, None, 1, 1)
    at, best = judged(replace(at, step=2), replace(none, figures={"sum": -9.0}), SUMS, 0.0)
    assert (best, at.best_score, at.stale) == (True, -9.0, 0)


def test_a_score_that_a_validation_could_not_compute_is_no_progress_either():
    none = Evaluation(loss=1.0, targets=1, figures={})  # as when no row of it has an answer
    at, best = judged(Position(step=1), none, SUMS, 0.0)
    assert (best, at.best_step, at.reference, at.stale, at.evaluated) == (False, None, None, 1, 1)
