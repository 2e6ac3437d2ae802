"""Evaluation runs with autograd on: it keeps activations and builds a graph that nobody uses.

Looks at: forward passes in evaluation whose result carries a graph.
Says so when: there are some and evaluating takes 2 % of the wall time. A note: what the graphs cost
    was not measured.
Stays silent when: evaluation stands under no_grad or inference_mode, or takes no time; or it may be
    training whose update was left out: no eval mode, and no loader that training does not read.
Remedy: with torch.inference_mode(): around the loop, or @torch.inference_mode() on the function.
Numbers: bitwise the same.
Seen: examples/planted/kept_losses.py.
Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disable-grad-doc
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for graphs in evaluation; their cost is unknown, so the finding has no share."""
    sure = [span for span in case.evaluations if span.is_sure]
    recorded = [span for span in sure if span.with_grad]
    seconds = sum(span.seconds for span in recorded)
    if not recorded or case.part(seconds) < ABSTAIN:
        return None
    return Finding(
        claim=f"{len(recorded)} of {len(sure)} evaluations ({case.part(seconds):.0%} "
        "of the time) run with autograd on",
        severity="note",
        places=list(dict.fromkeys(span.place for span in recorded if span.place)),
        remedies=[code_edit("put with torch.inference_mode(): around the evaluation loop")],
    )


RULE = Rule(
    title="Evaluation records what only training needs",
    judge=judge,
    needs=(Needs.STEPS, Needs.EVALUATIONS),
    under="H9",
    weight=2,
    numerics="bitwise",
    known="proved",
)
