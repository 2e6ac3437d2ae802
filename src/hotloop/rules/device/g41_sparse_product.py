"""A product multiplies a matrix that is almost all zeros as if it were not.

Looks at: the recorded products: how much of a factor that is not differentiated, of 16,384 numbers
    or more, is not 0 (10 % at most), whether several steps multiply the same one, and whether it
    has a one in each row and zeros.
Says so when: an experiment measured a gain of 3 % or more by a sparse matrix of this shape and
    share, forward and backward, or by a choice of rows for a one-hot matrix; without an experiment,
    as a note, when the products take 10 % of the time.
Stays silent when: the sparse form is no faster. A matrix that each step makes anew is converted in
    each step of the experiment.
Remedy: build the matrix sparse where it is made: matrix.to_sparse_csr(), or keep the sparse tensor
    that it was made from; `@` and torch.mm take it. In place of one_hot(ids) @ weight, use
    torch.nn.functional.embedding(ids, weight).
Numbers: rounding.
Seen: examples/planted/dense_graph.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/sparse.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum what the recorded products took."""
    rewrites = of_kind(case, "sparse product")
    factors = [one.sparse for one in rewrites if one.sparse is not None]
    if not factors:
        return None
    remedies = []
    if any(not one.is_one_hot for one in factors):
        remedies.append(code_edit("keep the matrix sparse from where it is made: to_sparse_csr()"))
    if any(one.is_one_hot for one in factors):
        remedies.append(
            code_edit("torch.nn.functional.embedding(ids, weight) for one_hot(ids) @ weight")
        )
    zeros = 1 - max(one.filled for one in factors)
    return rewritten(
        case,
        rewrites,
        claim=f"products multiply a matrix that is {100 * zeros:.4g} % zeros",
        remedies=remedies,
    )


RULE = Rule(
    title="A product multiplies mostly zeros",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="sparse product",
    only_measured=True,
)
