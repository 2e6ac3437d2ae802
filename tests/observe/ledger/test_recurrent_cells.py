"""Recurrent layers that a loop calls for each time step, as recorded steps show them."""

from collections.abc import Callable

import pytest
import torch
from tests.observe.ledger.recorded import recorded
from torch import nn

from hotloop.core.case.rewrite import Rewrite
from hotloop.observe.ledger.rewrites import found

TIMES, ROWS, SIZE, UNITS = 10, 2, 5, 4
X = torch.randn(TIMES, ROWS, SIZE)
OF_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def seen(model: nn.Module, loss: Callable[[], torch.Tensor]) -> list[Rewrite]:
    """Record steps of a loss; return the layers that are called again and again."""
    recorder, flow = recorded(lambda: [loss()], list(model.parameters()))
    breaks = sorted([*recorder.reads, *(begin for begin, _ in recorder.passes)])
    result = [one for one in found(flow, breaks) if one.kind == "recurrent cell"]
    recorder.release()
    return sorted(result, key=lambda one: one.form)


def output(state: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return state[0] if isinstance(state, tuple) else state


def walked(cell: nn.Module, change=lambda state: state, enter=lambda x, state: x) -> Callable:
    """Return a loss of a cell that is called for each time step."""

    def step() -> torch.Tensor:
        state, loss = None, torch.zeros(())
        for x in X:
            state = change(cell(x if state is None else enter(x, state), state))
            loss = loss + output(state).sum()
        return loss

    return step


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (nn.LSTMCell, "lstm"),
        (nn.GRUCell, "gru"),
        (nn.RNNCell, "rnn_tanh"),
        (lambda *sizes, bias: nn.RNNCell(*sizes, bias=bias, nonlinearity="relu"), "rnn_relu"),
    ],
)
def test_a_cell_in_a_loop_is_seen_with_its_sizes_and_line(cell, name, bias):
    model = cell(SIZE, UNITS, bias=bias)
    (one,) = seen(model, walked(model))
    gates = OF_GATES[name] * UNITS
    assert one.form == f"{name}_cell" + ("" if bias else " without bias")
    assert one.shapes == ((TIMES, ROWS, SIZE), (gates, SIZE), (gates, UNITS))
    assert (one.needs_grad, one.in_loop, one.calls) == ((False, True, True), TIMES, 1)
    assert one.seconds > 0
    assert 0.3 < one.share < 1
    assert {place.file for place in one.places} == {__file__}


@pytest.mark.parametrize(
    ("layer", "name"), [(nn.LSTM, "lstm"), (nn.GRU, "gru"), (nn.RNN, "rnn_tanh")]
)
def test_each_layer_of_one_that_is_given_sequences_of_one_step_is_seen(layer, name):
    model = layer(SIZE, UNITS, 2)

    def step() -> torch.Tensor:
        state, loss = None, torch.zeros(())
        for x in X:
            shown, state = model(x[None], state)
            loss = loss + shown.sum()
        return loss

    ones = seen(model, step)
    assert {one.form for one in ones} == {name}
    assert sorted(one.shapes[0] for one in ones) == [
        (TIMES, ROWS, UNITS),
        (TIMES, ROWS, SIZE),
    ]


def test_cells_on_one_another_are_two():
    lower, upper = nn.LSTMCell(SIZE, UNITS), nn.GRUCell(UNITS, UNITS)

    def step() -> torch.Tensor:
        state = above = None
        for x in X:
            state = lower(x, state)
            above = upper(nn.functional.dropout(state[0]), above)
        return above.sum()

    assert [one.form for one in seen(nn.ModuleList([lower, upper]), step)] == [
        "gru_cell",
        "lstm_cell",
    ]


def mixed(x: torch.Tensor, state: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    shown = output(state)
    return x + nn.functional.pad(shown, (0, SIZE - UNITS))


def sampled(x: torch.Tensor, state: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return nn.functional.one_hot(output(state).argmax(1), SIZE).float()


def read(x: torch.Tensor, state: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return X[int(output(state).argmax())]


@pytest.mark.parametrize("cell", [nn.LSTMCell(SIZE, UNITS), nn.GRUCell(SIZE, UNITS)])
@pytest.mark.parametrize("enter", [mixed, sampled, read])
def test_an_input_that_depends_on_the_state_is_left_alone(cell, enter):
    assert seen(cell, walked(cell, enter=enter)) == []


def test_a_state_that_is_its_own_input_is_left_alone():
    cell = nn.GRUCell(UNITS, UNITS)

    def step() -> torch.Tensor:
        state = torch.zeros(ROWS, UNITS)
        for _ in range(TIMES):
            state = cell(state, state)
        return state.sum()

    assert seen(cell, step) == []


def test_a_state_that_is_changed_between_two_calls_is_left_alone():
    cell = nn.GRUCell(SIZE, UNITS)
    assert seen(cell, walked(cell, change=lambda state: state * 0.9)) == []


def test_two_cells_that_feed_each_other_are_left_alone():
    one, other = nn.GRUCell(SIZE + UNITS, UNITS), nn.GRUCell(UNITS, UNITS)

    def step() -> torch.Tensor:
        first = second = torch.zeros(ROWS, UNITS)
        for x in X:
            first = one(torch.cat([x, second], 1), first)
            second = other(first, second)
        return second.sum()

    assert seen(nn.ModuleList([one, other]), step) == []


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_a_decoder_that_reads_what_it_said_is_left_alone(layer):
    model = layer(UNITS, UNITS, 2)

    def step() -> torch.Tensor:
        state, said = None, torch.ones(1, ROWS, UNITS)
        for _ in range(TIMES):
            said, state = model(said * 2, state)
        return said.sum()

    assert seen(model, step) == []


def test_a_whole_sequence_and_a_short_loop_are_left_alone():
    layer, cell = nn.LSTM(SIZE, UNITS), nn.LSTMCell(SIZE, UNITS)

    def step() -> torch.Tensor:
        state = None
        for x in X[:7]:
            state = cell(x, state)
        return layer(X)[0].sum() + state[0].sum()

    assert seen(nn.ModuleList([layer, cell]), step) == []
