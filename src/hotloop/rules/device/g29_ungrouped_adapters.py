"""Adapters add several small products to each layer, and the host cannot launch them fast enough.

Looks at: adapters in the model, and whether the GPU waits for the host.
Says so when: there are adapters and the GPU was done first in 80 % of the steps.
Stays silent when: the GPU is behind.
Remedy: compile the model, larger micro batches, or adapters on fewer kinds of layers.
Numbers: rounding; fewer adapters are another training run.
Seen: golden cases only; not yet seen on a GPU.
Source: hotloop, threshold of H1.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option

__all__ = ["RULE"]

STARVED = 0.80  # of the steps, as in H1


def judge(case: Case) -> Finding | None:
    """Look for adapters in a launch-bound run."""
    model = next((model for model in case.models if model.adapters), None)
    if model is None or (case.steps.starved or 0.0) < STARVED:
        return None
    return Finding(
        claim=f"adapters ({', '.join(model.adapters)}) add many small products, and the GPU waits "
        "for the host",
        severity="warn",
        remedies=[
            option("compile the model", technique="compile"),
            Remedy(text="a larger micro batch"),
        ],
    )


RULE = Rule(
    title="Many small adapters keep the GPU waiting",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    under="H1",
    weight=2,
    numerics="rounding",
)
