"""Several products of one input with weights of their own could be one product.

Looks at: the recorded operators: matrix products of the same values with several weights in one
    step, such as the gates of a recurrent cell or queries, keys and values. Whether they are the
    gates of an LSTM in a loop over time, all inputs of which are known before it begins.
Says so when: an experiment measured a gain of 3 % or more by one product with the weights side by
    side, or by nn.LSTM, on tensors of these shapes; without an experiment, as a note, when they
    take 10 % of the time.
Stays silent when: a library chooses the operators, some of the weights are frozen and others not,
    or one product is no faster, as with large weights.
Remedy: one nn.Linear with the outputs of all, and chunk() or split() of its result. In a Python
    loop over time: nn.LSTM or nn.GRU, whose loop is not in Python, if each step needs no more than
    the input and the state.
Numbers: rounding. The initial weights are drawn in another order.
Seen: examples/pairs/t10; examples/planted/four_gates.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]

LOOP = 3  # calls with the same weights in a step: a loop over time


def judge(case: Case) -> Finding | None:
    """Sum what the recorded operators took."""
    rewrites = of_kind(case, "one product")
    in_loop = max((one.in_loop for one in rewrites), default=1)
    most = max((len(one.shapes) - 1 for one in rewrites), default=0)
    remedies = [code_edit("one nn.Linear with the outputs of all, then .chunk() or .split()")]
    if in_loop >= LOOP:
        text = "nn.LSTM or nn.GRU in place of the loop, if a step needs only its input and state"
        remedies.insert(0, code_edit(text))
    if any(one.form.startswith("lstm") for one in rewrites):
        return rewritten(
            case,
            rewrites,
            claim=f"an LSTM is written as a loop over {in_loop} time steps",
            remedies=[code_edit("nn.LSTM, to which the whole input is given at once")],
        )
    where = f" in each of {in_loop} time steps" if in_loop >= LOOP else ""
    return rewritten(
        case,
        rewrites,
        claim=f"{most} products of one input are made one by one{where}",
        remedies=remedies,
    )


RULE = Rule(
    title="Products of one input are made one by one",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="one product",
    only_measured=True,
)
