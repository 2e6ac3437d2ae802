"""Recorded steps, with a recording that simply calls again: all but CUDA's own part."""

from types import SimpleNamespace

import pytest
import torch
from tests.golden.recordings import CalledAgain

from hotloop.core.hardware import Hardware
from hotloop.engine.graphs.recorded_steps import FAILURES, MOST, RecordedSteps
from hotloop.engine.graphs.recording import CudaRecording
from hotloop.engine.step import (
    NonFiniteGuard,
    accumulate,
    drop_gradients,
    halve_micro_batch,
    update,
)
from hotloop.session.batch import Batch
from hotloop.session.session import Session


def session() -> Session:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    return Session(
        job=SimpleNamespace(widest=None, fillers={}, learns_all=False),
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=4,
        accumulation=2,
        forward=lambda tensors: model(tensors["x"]).square().mean(),
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1, fused=True),
    )


def batch(first: int, count: int) -> Batch:
    x = torch.arange(first, first + count * 3, dtype=torch.float32).reshape(count, 3) / 10
    return Batch(tensors={"x": x}, samples=count, tokens=count, targets=count)


def grads(one: Session) -> list[torch.Tensor]:
    return [p.grad.clone() for p in one.model.parameters()]


def recorded(one=None, recording=None) -> Session:
    one = one or session()
    one.stepping.replay = RecordedSteps(one, recording or CalledAgain())
    one.stepping.replay.add(batch(0, 4))
    return one


@pytest.mark.parametrize("counts", [(4,), (4, 4), (4, 4, 1), (2,)])
def test_replayed_windows_have_the_gradients_and_losses_of_eager_ones(counts):
    one, other = recorded(), session()
    window = [batch(7 * number, count) for number, count in enumerate(counts)]
    for _ in range(2):
        mine = accumulate(one, window, str, int)
        theirs = accumulate(other, window, str, int)
        torch.testing.assert_close(mine, theirs)
        for a, b in zip(grads(one), grads(other), strict=True):
            torch.testing.assert_close(a, b)
        drop_gradients(one)
        drop_gradients(other)


def test_gradients_stay_where_the_graph_adds_to_them():
    one = recorded()
    places = [p.grad.data_ptr() for p in one.model.parameters()]
    accumulate(one, [batch(0, 4)], str, int)
    drop_gradients(one)
    assert [p.grad.data_ptr() for p in one.model.parameters()] == places
    assert all(not p.grad.any() for p in one.model.parameters())


def test_a_loss_is_not_written_over_by_the_next_replay():
    one = recorded()
    first = accumulate(one, [batch(0, 4)], str, int)
    value = first.item()
    accumulate(one, [batch(50, 4)], str, int)
    assert first.item() == value


def test_a_halved_micro_batch_gives_the_recording_up():
    one = recorded()
    assert halve_micro_batch(one, 8)
    assert one.stepping.replay is None


def test_a_shape_is_recorded_when_it_comes():
    one = recorded()
    steps = one.stepping.replay
    assert steps.micro(batch(3, 2), 1.0) is None
    steps.ready([batch(3, 2)])
    assert steps.micro(batch(5, 2), 1.0) == pytest.approx(
        float(one.forward(batch(5, 2).tensors).detach())
    )
    assert sorted(one.stepping.decided.values()) == ["recorded", "recorded"]


def test_too_many_shapes_run_eagerly():
    one = recorded()
    steps = one.stepping.replay
    for count in range(1, MOST + 3):
        steps.ready([batch(0, count)])
    assert len(one.stepping.decided) == MOST
    assert steps.micro(batch(3, MOST + 2), 1.0) is None


def test_a_resumed_run_records_what_the_first_part_had_recorded():
    one = session()
    one.stepping.decided = {f"x {n}x3": "recorded" for n in range(1, 40)}
    steps = recorded(one).stepping.replay
    for count in range(1, 40):
        steps.ready([batch(3, count)])
    assert steps.micro(batch(5, 39), 1.0) is not None


def test_a_shape_that_cannot_be_recorded_stays_eager():
    class Once(CalledAgain):
        def record(self, once):
            if recorded_so_far:
                raise RuntimeError("operation not permitted when stream is capturing")
            return super().record(once)

    recorded_so_far = []
    one = recorded(recording=Once())
    recorded_so_far.append(1)
    for count in (2, 2, *range(10, 30)):
        one.stepping.replay.ready([batch(3, count)])
    assert one.stepping.decided["x 2x3"] == "eager"
    assert one.stepping.replay.micro(batch(3, 2), 1.0) is None
    assert list(one.stepping.decided.values()).count("eager") == FAILURES


@pytest.mark.gpu
def test_cuda_records_and_replays():
    one, other = session(), session()
    for each in (one, other):
        each.model.cuda()
        each.device = torch.device("cuda")
    recorded(one, CudaRecording())
    guards = [NonFiniteGuard(one), NonFiniteGuard(other)]
    for window in ([batch(3, 4)], [batch(5, 4), batch(9, 4)], [batch(3, 4), batch(9, 1)]) * 2:
        mine, theirs = (accumulate(each, window, str, int) for each in (one, other))
        torch.testing.assert_close(mine, theirs)
        for a, b in zip(grads(one), grads(other), strict=True):
            torch.testing.assert_close(a, b)
        norms = [
            update(each, guard, loss, 0.5)
            for each, guard, loss in zip((one, other), guards, (mine, theirs), strict=True)
        ]
        torch.testing.assert_close(*norms)
        for group in one.optimizer.param_groups + other.optimizer.param_groups:
            group["lr"] *= 0.9
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)
