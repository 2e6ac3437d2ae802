"""A Python loop calls a recurrent layer once for each time step.

Looks at: the recorded operators: nn.LSTMCell, nn.GRUCell and nn.RNNCell, or nn.LSTM, nn.GRU and
    nn.RNN on sequences of length 1, that are called 8 times or more in a step, with the state that
    they returned before.
Says so when: an experiment measured a gain of 3 % or more by one call on the whole sequence,
    forward and backward, on tensors of these shapes; without an experiment, as a note, when they
    take 10 % of the time.
Stays silent when: an input depends on what the layer returned before (attention over a state,
    sampling), the state is changed between two calls, or Python reads a value between them, which
    may decide what comes next.
Remedy: give the layer the whole sequence: nn.LSTM, nn.GRU or nn.RNN with the same weights. It
    multiplies all inputs at once, and its loop is not in Python. Lengths that differ need
    pack_padded_sequence, or a mask in the loss.
Numbers: rounding.
Seen: examples/planted/cell_by_cell.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]

_LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def judge(case: Case) -> Finding | None:
    """Sum what the layers of all loops took."""
    rewrites = of_kind(case, "recurrent cell")
    if not rewrites:
        return None
    name = rewrites[0].form.partition(" ")[0]
    layer = _LAYERS[name.partition("_")[0]]
    called = f"nn.{layer}Cell" if name.endswith("_cell") else f"nn.{layer}"
    calls = sum(one.calls * one.in_loop for one in rewrites)
    return rewritten(
        case,
        rewrites,
        claim=f"{called} is called {calls:,.0f} times a step, once for each time step",
        remedies=[code_edit(f"one call of nn.{layer} on the whole sequence")],
    )


RULE = Rule(
    title="A recurrent layer is called once for each time step",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="recurrent cell",
    only_measured=True,
)
