"""A Python loop calls operators one by one on tensors that one call could take together.

Looks at: the recorded operators: calls of one operator at one place with tensors of the same
    shapes, of which none depends on another, and between which Python reads no value; and Python
    numbers that are written into items of a tensor.
Says so when: an experiment measured a gain of 3 % or more by one call on all tensors in place of
    the calls of the loop, forward and backward; without an experiment, as a note, when they take
    10 % of the time.
Stays silent when: the calls depend on one another, as those of a recurrent cell; a library or an
    optimizer makes them; a backward pass lies between them (micro batches: see H23), or a value
    that Python reads, to which an environment may answer; there are fewer than 8.
Remedy: keep the tensors of all rounds in one, with the round as its first dimension, and call the
    operators once. Where they differ in length, pad and mask them; torch.func.vmap does it for a
    function. Numbers are appended to a list, from which torch.tensor() makes one tensor.
Numbers: rounding, as sums are made in another order.
Seen: benchmarks/field/truth/chatbot.json; examples/planted/pair_by_pair.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]

_NUMBERS = "numbers"


def judge(case: Case) -> Finding | None:
    """Sum what the calls of all loops took."""
    rewrites = of_kind(case, "looped operator")
    if not rewrites:
        return None
    calls = sum(one.calls * one.in_loop for one in rewrites)
    claim = (
        f"a Python loop calls operators {calls:,.0f} times a step on tensors that do not depend on "
        "one another"
    )
    remedies = ["one call on a tensor that has all rounds of the loop, or torch.func.vmap"]
    written = [one for one in rewrites if one.form == _NUMBERS]
    if len(written) == len(rewrites):
        claim = f"a Python loop writes {calls:,.0f} numbers a step into tensors, one at a time"
        remedies = []
    if written:
        remedies.append("append the numbers to a list and call torch.tensor(list) once")
    return rewritten(
        case, rewrites, claim=claim, remedies=[code_edit(remedy) for remedy in remedies]
    )


RULE = Rule(
    title="A Python loop calls operators one by one",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="looped operator",
    only_measured=True,
)
