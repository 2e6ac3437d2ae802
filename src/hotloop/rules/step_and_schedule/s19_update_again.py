"""An update is made a second time with the same gradients.

Looks at: whether a backward pass came between two updates of one optimizer, and whether anything
    was written to the gradients of a few weights meanwhile (the first updates, all looked at).
Says so when: two or more of the first five such updates had no new backward pass and the gradients
    of the update before.
Stays silent when: no update has a backward pass, as where gradients are set by hand; or several
    optimizers step after one pass, each once.
Remedy: one optimizer.step() for each backward pass; a larger learning rate if the second was meant.
Numbers: training: each gradient counts twice, the second time with another moment estimate; the
    optimizer's time doubles.
Seen: examples/planted/stepped_twice.py; benchmarks/field/truth/nli_pooled.json.
Source: https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

FEWEST = 4  # updates that were compared with the one before
OFTEN = 0.3
ALL = 0.95  # then there is no backward pass at all: gradients are set by hand


def judge(case: Case) -> Finding | None:
    """Say that updates come without a new backward pass."""
    share, looks = case.steps.made_again, case.steps.again_looks
    if share is None or looks < FEWEST or not OFTEN <= share <= ALL:
        return None
    place = case.steps.again_place
    return Finding(
        claim=f"{round(share * looks)} of the {looks} updates that were looked at use the "
        "gradients of the update before: optimizer.step() is called again without a backward pass",
        severity="critical",
        places=[place] if place else [],
        evidence={"updates that were looked at": f"{looks}"},
        remedies=[code_edit("call optimizer.step() once for each backward pass")],
    )


RULE = Rule(
    title="Updates are made twice",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
