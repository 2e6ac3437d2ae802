"""Two optimizers hold the same weights, and both update them after one backward pass.

Looks at: the weights that two optimizers in use hold, over the first updates.
Says so when: two updates in a row write to one of them, no backward pass came between, and its
    gradient is the same.
Stays silent when: each optimizer has a backward pass of its own, as in the phases of a training;
    or gradients are cleared between the two.
Remedy: give each weight to one optimizer, or all weights to one with groups of their own rates.
Numbers: training: these weights take two steps for each gradient, each by its own averages.
Seen: examples/planted/shared_embedding.py; benchmarks/field/truth/chatbot.json.
Source: https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

FEWEST = 2  # updates that were the second
NAMED = 3


def judge(case: Case) -> Finding | None:
    """Report the weights that are updated twice."""
    seen = [one for one in case.twice_updated if one.updates >= FEWEST]
    if not seen:
        return None
    most = max(seen, key=lambda one: one.parameters)
    known = {optimizer.key: optimizer for optimizer in case.optimizers}
    both = [known[key] for key in most.optimizers if key in known]
    more = f" and {len(most.names) - NAMED} more" if len(most.names) > NAMED else ""
    verb, object_ = ("is", "it") if len(most.names) == 1 else ("are", "them")
    return Finding(
        claim=f"{', '.join(most.names[:NAMED])}{more} ({most.parameters:,} parameters) {verb} "
        f"updated twice for each backward pass: two optimizers hold {object_}",
        severity="critical",
        places=[optimizer.place for optimizer in both if optimizer.place],
        evidence={
            "optimizers": " and ".join(optimizer.name for optimizer in both),
            "second updates that were seen": f"{most.updates}",
        },
        remedies=[
            code_edit("give each weight to one optimizer"),
            code_edit("one optimizer with a parameter group for each learning rate"),
        ],
    )


RULE = Rule(
    title="Weights are updated by two optimizers",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
