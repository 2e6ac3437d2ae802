"""A Python loop calls operators one by one on tensors that one call could take together.

Looks at: the recorded operators: calls of one operator at one place with tensors of the same
    shapes, of which none depends on another, and between which Python reads no value; and Python
    numbers that are written into items of a tensor.
Says so when: an experiment measured a gain of 3 % or more by one call on all tensors in place of
    the calls of the loop, forward and backward; without an experiment, as a note, when they take
    10 % of the time.
Stays silent when: the calls depend on one another, as those of a recurrent cell; a library or an
    optimizer makes them; a backward pass lies between them (micro batches: see H23), or a value
    that Python reads, to which an environment may answer (a write may wait, unless the tensor is
    read before the next one); there are fewer than 8.
Remedy: keep the tensors of all rounds in one, with the round as its first dimension, and call the
    operators once. Where they differ in length, pad and mask them; torch.func.vmap does it for a
    function. Parts of a tensor that are written one by one are appended to a list, of which
    torch.stack() makes one tensor; numbers likewise, with torch.tensor(). If they go to scattered
    positions, x[positions] = values writes them all.
Numbers: rounding, as sums are made in another order.
Seen: benchmarks/field/truth/chatbot.json, enru_lstm.json; examples/planted/pair_by_pair.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]

_WRITES = ("numbers", "copy_")
_REMEDIES = {
    "": "one call on a tensor that has all rounds of the loop, or torch.func.vmap",
    "copy_": "append the parts to a list; then torch.stack(list, dim), or one index assignment",
    "numbers": "append the numbers to a list; then torch.tensor(list), or one index assignment",
}


def judge(case: Case) -> Finding | None:
    """Sum what the calls of all loops took."""
    rewrites = of_kind(case, "looped operator")
    if not rewrites:
        return None
    calls = sum(one.calls * one.in_loop for one in rewrites)
    forms = {one.form if one.form in _WRITES else "" for one in rewrites}
    claim = (
        f"a Python loop calls operators {calls:,.0f} times a step on tensors that do not depend on "
        "one another"
    )
    if forms == {"numbers"}:
        claim = f"a Python loop writes {calls:,.0f} numbers a step into tensors, one at a time"
    elif forms == {"copy_"}:
        claim = f"a Python loop writes {calls:,.0f} parts of tensors a step, one at a time"
        if any(rewrite.needs_grad[-1] for rewrite in rewrites):
            claim += ": the backward pass of each write copies the gradient of the whole tensor"
    return rewritten(
        case,
        rewrites,
        claim=claim,
        remedies=[code_edit(_REMEDIES[form]) for form in _REMEDIES if form in forms],
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
