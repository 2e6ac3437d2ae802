import pytest
import torch
from torch import nn

from hotloop.core.errors import DataError
from hotloop.core.hardware import Hardware
from hotloop.session import Batch, Job, Session
from hotloop.training.evaluate import evaluate


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
    assert evaluate(session(), rows, lambda: None, batches=None) == (4.5, 4)  # 0, 3, 6, 9
    assert evaluate(session(), rows, lambda: None, batches=2) == (3.0, 3)


def test_rows_are_cut_as_the_job_says():
    cuts = []

    def in_two(samples, epoch, first, count, micro_batch):
        cuts.append((first, count, micro_batch))
        return [(0, 7), (7, 3)]

    assert evaluate(session(cut=in_two), Rows(10), lambda: None, batches=1) == (3.0, 7)
    assert cuts == [(0, 10, 4)]


def test_rows_without_any_loss_are_refused_and_the_model_trains_on():
    one = session()
    with pytest.raises(DataError, match="nothing of numbers carries loss"):
        evaluate(one, Rows(3, learned=lambda i: False), lambda: None, batches=None)
    assert one.model.training
