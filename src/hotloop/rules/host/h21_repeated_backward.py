"""Several backward passes of a step go through one and the same graph.

Looks at: the graphs of the backward passes of sampled steps, of backward() and of autograd.grad,
    and the time that they take.
Says so when: what could be left out is 10 % of the time: the nodes that a pass goes through again
    although two passes could have been one, as a share of all nodes.
Stays silent when: each pass has a graph of its own; or only the sum of the losses of two optimizers
    would join them (a GAN), or a derivative of a derivative goes back through it.
Remedy: add the losses up and call backward() once; give autograd.grad all inputs in one call.
Numbers: the same sum of gradients, added in another order: within rounding.
Seen: examples/blind2/pendulum_rollout; examples/planted/two_derivatives.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html takes a sequence of
    inputs. That a node takes as long as another is hotloop's estimate.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

LEAST = 0.10  # share of the time


def judge(case: Case) -> Finding | None:
    """Take the share of repeated nodes for that of the time."""
    left_out = case.steps.repeated_graph or 0.0
    return costing(
        case,
        case.row("backward") * left_out,
        least=LEAST,
        claim=f"{left_out:.0%} of what the backward passes of a step go through, one before has "
        "gone through",
        places=list(case.steps.repeated_places),
        evidence={"backward": f"{case.row('backward'):.1f} s of {case.seconds:.1f} s"},
        remedies=[
            code_edit("of losses: add them up and call backward() once, without retain_graph"),
            code_edit("of autograd.grad: one call with all inputs, autograd.grad(y, [a, b])"),
        ],
    )


RULE = Rule(
    title="Backward passes that go through the same graph again",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=2,
    numerics="rounding",
    experiment="repeated",
)
