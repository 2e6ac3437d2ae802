"""A few rows are drawn by permuting all of them.

Looks at: the lines that call numpy.random.choice with replace=False, and the time that they take.
Says so when: an experiment in which numpy's newer generator draws as many rows gained 3 % or more.
Stays silent when: rows are drawn with replacement or with weights.
Remedy: numpy.random.default_rng().choice(n, size, replace=False), made once, or
    random.sample(range(n), size).
Numbers: training: other rows are drawn, of the same distribution.
Seen: examples/planted/drawn_states.py.
Source: RandomState.choice permutes all n values and stays so for the sake of its stream,
    https://github.com/numpy/numpy/pull/9855
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.slow_calls import permuted_draws

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Take the time of the lines on which an experiment was made."""
    made = next((one for one in case.experiments if one.name == "drawn rows"), None)
    seconds = permuted_draws(case)
    if made is None or not seconds:
        return None
    return costing(
        case,
        sum(seconds.values()),
        claim="numpy.random.choice without replacement permutes all rows for each draw",
        places=made.places[:4],
        remedies=[
            code_edit(
                "make rng = np.random.default_rng() once and draw with rng.choice(n, size, "
                "replace=False), or with random.sample(range(n), size)"
            )
        ],
    )


RULE = Rule(
    title="A draw permutes all rows",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    numerics="training",
    experiment="drawn rows",
    only_measured=True,
)
