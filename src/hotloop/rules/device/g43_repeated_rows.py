"""A layer multiplies copies of the same rows, where it could multiply each row once.

Looks at: the recorded products with weights whose input was expanded, repeated or chosen from a
    table, as a whole or some of the tensors that torch.cat has put beside each other; and parts
    that a Python loop gives to the same layer in each of its calls.
Says so when: an experiment measured a gain of 3 % or more by products of the parts before they are
    copied, and the sum of their copies, forward and backward, on tensors of these shapes; without
    an experiment, as a note, when the products take 10 % of the time.
Stays silent when: the products before the copies would have more than 80 % of the FLOPs, or are no
    faster.
Remedy: write layer(x).expand(...) in place of layer(x.expand(...)). Split a layer that reads
    torch.cat([a, b]) into one for each part, call each before its rows are copied, and add the
    results. Call the one whose input a loop does not change before the loop.
Numbers: rounding.
Seen: examples/planted/all_edges.py; benchmarks/field/truth/bilstm_lan.json.
Source: hotloop; additive attention and pairs of nodes, as in many tutorials.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum what the recorded products took."""
    rewrites = of_kind(case, "repeated rows")
    if not rewrites:
        return None
    largest = max(rewrites, key=lambda one: one.seconds)
    rows = largest.shapes[0][0]
    fewest = min(part.rows for part in largest.repeated)
    calls = max(part.calls for part in largest.repeated)
    claim = f"a layer multiplies {rows:,} rows that are copies of {fewest:,}"
    remedy = "give the layer the rows before they are copied, and copy what it returns"
    if calls > 1:
        claim = (
            f"a layer is called {calls} times a step, each time with the same values in part of "
            "its input"
        )
        remedy = (
            "split the layer into one for each part of torch.cat and add their results; call the "
            "one whose input does not change before the loop"
        )
    elif len(largest.repeated) > 1:
        claim = (
            f"a layer multiplies {rows:,} rows, some of whose columns are copies of {fewest:,} rows"
        )
        remedy = (
            "split the layer into one for each part of torch.cat, call each before its rows are "
            "copied, then copy and add the results"
        )
    return rewritten(case, rewrites, claim=claim, remedies=[code_edit(remedy)])


RULE = Rule(
    title="A layer multiplies copies of rows",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="repeated rows",
    only_measured=True,
)
