"""The loss takes a softmax of probabilities, so it cannot come near 0.

Looks at: the input of each log-softmax in the recorded steps, as cross_entropy makes one.
Says so when: in each call at a line all rows are at least 0 and sum to 1 within rounding.
Stays silent when: the input are logits, or log_softmax is not used.
Remedy: give the logits to cross_entropy; or take the log of the probabilities, and nll_loss.
Numbers: the run changes: with k classes the loss stays above log(1 + (k - 1) / e), and gradients
    are small.
Seen: examples/planted/twice_softmax.py; written after a script of an author who did not know
    hotloop.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html ("The input is
    expected to contain the unnormalized logits")
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report the lines."""
    places = case.ledger.softmax_twice if case.ledger is not None else ()
    if not places:
        return None
    return Finding(
        claim="cross_entropy is given probabilities: it takes the softmax of a softmax",
        severity="critical",
        places=list(places),
        remedies=[code_edit("give it the logits, as they come from the last layer")],
    )


RULE = Rule(
    title="The softmax of a softmax",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
