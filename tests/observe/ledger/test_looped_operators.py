"""Operators that a Python loop calls, as the dataflow of recorded steps shows them."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
import torch
from tests.observe.ledger.recorded import recorded
from torch import nn

from hotloop.observe.ledger.dataflow import reaching
from hotloop.observe.ledger.looped_operators import looped

ROWS, SIZE = 24, 6


def seen(losses: Callable[[], Iterable[torch.Tensor]], weights: list[torch.Tensor]):
    """Record steps; return the loops by operator."""
    recorder, flow = recorded(losses, weights)
    result = looped(flow, sorted([*recorder.reads, *(begin for begin, _ in recorder.passes)]))
    recorder.release()
    # Of each operator, the one with most calls: without a gradient it is another one.
    return {one.form: one for one in sorted(result, key=lambda one: one.calls * one.in_loop)}


def weight() -> nn.Parameter:
    return nn.Parameter(torch.randn(SIZE, SIZE))


def test_products_and_writes_of_a_loop_are_seen_with_their_number_and_line():
    w, x = weight(), torch.randn(ROWS, SIZE)

    def step():
        y, scores = x @ w, torch.zeros(ROWS)
        for row in range(ROWS):
            scores[row] = y[row].dot(x[row])
        return [scores.square().mean()]

    loops = seen(step, [w])
    assert loops.keys() == {"dot", "copy_"}
    dot = loops["dot"]
    assert dot.looped is not None
    assert (dot.shapes, dot.needs_grad) == (((SIZE,), (SIZE,)), (True, False))
    assert (dot.looped.are_items, dot.looped.shared) == ((True, False), (False, False))
    assert dot.in_loop == ROWS
    assert dot.calls == pytest.approx(1, abs=0.1)  # the first few are not noted
    assert dot.seconds > 0
    assert 0 < dot.share + loops["copy_"].share < 1
    assert {place.file for place in dot.places} == {__file__}


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_numbers_that_are_written_one_by_one_are_seen(dtype):
    w = weight()

    def step():
        x = torch.zeros(ROWS, SIZE, dtype=dtype)
        for row in range(ROWS):
            for column in range(SIZE):
                x[row, column] = (row + column) % 3
        return [(x.float() @ w).square().mean()]

    loops = seen(step, [w])
    assert loops.keys() == {"numbers"}
    one = loops["numbers"]
    assert one.in_loop * one.calls == pytest.approx(ROWS * SIZE, abs=4)
    assert {place.file for place in one.places} == {__file__}


def test_many_writes_into_one_tensor_are_followed_in_little_memory():
    w, sources = weight(), torch.randn(400, SIZE)

    def step():
        x = torch.zeros(400, SIZE)
        for row, source in enumerate(sources):
            x[row] = source * 2
        return [(x @ w).square().mean()]

    recorder, flow = recorded(step, [w])
    recorder.release()
    assert max(len(one.reads) for one in flow.operations) < 40
    useful = reaching(flow.operations, flow.live)
    forward = [n for n, one in enumerate(flow.operations[: flow.ends[0]]) if one.node is None]
    products = [n for n in forward if flow.operations[n].name == "aten::mul"]
    assert len(products) == 400
    assert useful.issuperset(products)


def test_writes_wait_for_no_value_that_python_reads_and_have_their_backward_pass():
    w, x = weight(), torch.randn(ROWS, 256, SIZE)

    def step():
        outputs = torch.zeros(256, ROWS, SIZE)
        for moment in range(ROWS):
            outputs[:, moment] = x[moment] @ w
            torch.rand(1).item()
        return [outputs.square().mean()]

    loop = seen(step, [w])["copy_"]
    assert (loop.in_loop, loop.calls) == (ROWS, pytest.approx(1, abs=0.2))
    assert loop.seconds > 5 * ROWS * 1e-6
    assert loop.share > 0.3  # each write copies the gradient of all outputs


def test_writes_into_several_tensors_or_with_reads_between_them_are_not_one():
    w, x = weight(), torch.randn(ROWS, SIZE)

    def copied():
        state, losses = torch.zeros(ROWS, SIZE), []
        for row in range(ROWS):
            state = state.clone()
            state[row] = x[row] @ w
            losses.append(state.square().mean())
        return [torch.stack(losses).sum()]

    def read():
        state, losses = torch.zeros(ROWS, SIZE), []
        for row in range(ROWS):
            state[row] = x[row] * 2
            losses.append(state.sum() * w.sum())
        return [torch.stack(losses).sum()]

    assert "copy_" not in seen(copied, [w])
    assert "copy_" not in seen(read, [w])


def test_a_weight_is_the_same_for_all_calls():
    w, x = weight(), torch.randn(ROWS, 3, SIZE)
    loops = seen(lambda: [sum((row @ w).sum() for row in x)], [w])
    assert loops["mm"].looped is not None
    assert loops["mm"].looped.shared == (False, True)


def test_calls_in_each_of_several_time_steps_are_joined_in_each():
    w, x = weight(), torch.randn(4, ROWS, SIZE)

    def step():
        state = x[0]
        for moment in x:
            state = torch.stack([(row * moment[0]).tanh() for row in state]) @ w
        return [state.sum()]

    tanh = seen(step, [w])["tanh"]
    assert (tanh.calls, tanh.in_loop) == (3, ROWS)  # the first has no gradient


def recurrent(w: nn.Parameter) -> list[torch.Tensor]:
    state = torch.zeros(3, SIZE)
    for moment in torch.ones(ROWS, 3, SIZE):
        state = (state @ w + moment).tanh()
    return [state.sum()]


def micro_batches(w: nn.Parameter) -> Iterator[torch.Tensor]:
    for _ in range(ROWS):
        yield (torch.ones(3, SIZE) @ w).tanh().sum()


def rollout(w: nn.Parameter) -> list[torch.Tensor]:
    state, values = np.ones((3, SIZE), dtype=np.float32), []
    for _ in range(ROWS):
        values.append((torch.from_numpy(state) @ w).tanh())
        state = state * float(values[-1].sum().item() > 0)  # the environment answers
    return [torch.stack(values).sum()]


def few(w: nn.Parameter) -> list[torch.Tensor]:
    return [sum((row @ w).tanh().sum() for row in torch.randn(5, 3, SIZE))]


def at_random(w: nn.Parameter) -> list[torch.Tensor]:
    return [sum(nn.functional.dropout(w[0]).sum() for _ in range(ROWS))]


@pytest.mark.parametrize("losses", [recurrent, micro_batches, rollout, few, at_random])
def test_what_cannot_be_one_call_is_no_loop(losses):
    w = weight()
    loops = seen(lambda: losses(w), [w])
    assert not loops.keys() & {"mm", "tanh", "native_dropout", "bernoulli"}
