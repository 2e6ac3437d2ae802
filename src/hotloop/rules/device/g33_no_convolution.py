"""cudnn.benchmark is on, and there is no convolution it could concern.

Looks at: the switch and the modules of the models.
Says so when: it is on and no model has a convolution.
Stays silent when: there is one, or the run is on the CPU.
Remedy: leave the line out.
Numbers: none.
Seen: golden cases only; not yet seen on a GPU.
Source: page of cudnn-benchmark; 10-20 % are often claimed for it in transformers.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for a convolution."""
    switch = case.process.switches.get("cudnn.benchmark")
    if switch != "True" or any(model.convolutions for model in case.models):
        return None
    return Finding(
        claim="cudnn.benchmark concerns convolutions only, and no model here has one",
        severity="note",
        remedies=[code_edit("leave the line out: it changes nothing")],
    )


RULE = Rule(
    title="cudnn.benchmark does nothing here",
    judge=judge,
    needs=(Needs.MODEL, Needs.GPU),
    kind="not worth it",
    known="proved",
)
