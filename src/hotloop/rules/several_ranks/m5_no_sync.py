"""Gradients are accumulated over several micro batches, and exchanged for each of them.

Looks at: backward passes per step, the wrapper, and the code for no_sync.
Says so when: a DistributedDataParallel model makes several backward passes per step and the code
    never says no_sync (or set_requires_gradient_sync). A note where it was not seen whether the
    passes exchange gradients.
Stays silent when: it does, or a framework does the loop.
Remedy: with model.no_sync(): around all backward passes but the last.
Numbers: rounding; sums are formed in another order.
Seen: examples/planted/parallel_defaults.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.syntax import calls, parse

__all__ = ["RULE"]

BEYOND = 1.5  # exchanges of a step: one is needed


def judge(case: Case) -> Finding | None:
    """Count backward passes, and look for no_sync."""
    model = next((m for m in case.models if m.wrapped == "DistributedDataParallel"), None)
    backwards = round(case.steps.backwards or 1)
    if model is None or backwards < 2 or case.framework != "plain":
        return None
    code = parse(case.sources)
    if any("no_sync" in m.text or "requires_gradient_sync" in m.text for m in code.modules):
        return None
    exchanging = case.process.exchanging
    if exchanging is not None and exchanging * backwards < BEYOND:
        return None
    places = [
        loop.module.place(call)
        for loop in code.inner_loops
        for call in calls(loop.node, "backward")
    ]
    return Finding(
        claim=f"gradients are exchanged {backwards} times a step, and once is enough",
        severity="warn",
        known="read" if exchanging is None else "proved",
        places=places[:1],
        remedies=[
            code_edit("with model.no_sync(): around all backward passes but the last of a step")
        ],
    )


RULE = Rule(
    title="Gradients are exchanged for every micro batch",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.CODE, Needs.RANKS),
    under="M3",
    weight=3,
    numerics="rounding",
    known="read",
)
