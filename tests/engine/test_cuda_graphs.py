"""The recorded micro step, with a recording that simply calls again: all but CUDA's own part."""

import pytest
import torch

from hotloop.core.hardware import Hardware
from hotloop.engine.cuda_graphs import GraphedMicroStep
from hotloop.engine.step import accumulate, drop_gradients, halve_micro_batch
from hotloop.session.batch import Batch
from hotloop.session.session import Session


def session() -> Session:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    return Session(
        job=None,
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=4,
        accumulation=2,
        forward=lambda tensors: model(tensors["x"]).square().mean(),
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
    )


def called_again(once):
    """A recording as CUDA makes it: it writes its loss over the one before."""
    loss = once()
    return lambda: loss.copy_(once()), loss


def batch(first: int, count: int) -> Batch:
    x = torch.arange(first, first + count * 3, dtype=torch.float32).reshape(count, 3) / 10
    return Batch(tensors={"x": x}, samples=count, tokens=count, targets=count)


def grads(one: Session) -> list[torch.Tensor]:
    return [p.grad.clone() for p in one.model.parameters()]


def recorded() -> Session:
    one = session()
    one.stepping.replay = GraphedMicroStep(one, batch(0, 4).tensors, called_again)
    drop_gradients(one)
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


@pytest.mark.gpu
def test_cuda_records_and_replays():
    one, other = session(), session()
    for each in (one, other):
        each.model.cuda()
        each.device = torch.device("cuda")
    one.stepping.replay = GraphedMicroStep(one, {"x": batch(0, 4).tensors["x"].cuda()})
    drop_gradients(one)
    for window in ([batch(3, 4)], [batch(5, 4), batch(9, 4)], [batch(3, 4), batch(9, 1)]):
        mine, theirs = accumulate(one, window, str, int), accumulate(other, window, str, int)
        torch.testing.assert_close(mine, theirs)
        for a, b in zip(grads(one), grads(other), strict=True):
            torch.testing.assert_close(a, b)
        drop_gradients(one)
        drop_gradients(other)


def test_what_is_no_tensor_is_refused_by_its_name():
    one = session()
    with pytest.raises(RuntimeError, match="targets of a batch cannot be recorded"):
        GraphedMicroStep(one, {**batch(0, 4).tensors, "targets": 4}, called_again)
