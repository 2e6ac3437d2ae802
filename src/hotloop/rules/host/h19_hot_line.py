"""One line of the project's own code takes a large part of the time, and is not the model's call.

Looks at: the call stacks of the steps: the innermost line of the project's own code, where no
    module of torch stands between it and the operation. Where batches are made by hand, the lines
    that make them too.
Says so when: one line holds 25 % of the time or more.
Stays silent when: the time goes through modules, as a model's should, the line only calls the
    model, the loss or the backward pass, or an experiment showed what the ledger says of it or
    that another form is faster.
Remedy: look at that line; what it builds may be larger than what is needed of it.
Numbers: depends on the remedy.
Seen: written after examples/blind/signal_codebook and cartpole_replay, which no rule named.
Source: hotloop.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.hot_lines import unexplained_line

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for such a line."""
    hot = unexplained_line(case)
    if hot is None:
        return None
    return costing(
        case,
        hot.seconds,
        claim=f"one line takes {case.part(hot.seconds):.0%} of the time, backward left out",
        places=[hot.place, *([hot.caller] if hot.caller else [])],
        remedies=[
            code_edit(
                "look at what this line makes and how large it is; hotloop doctor --profile "
                "lists its operators with their shapes"
            )
        ],
    )


RULE = Rule(
    title="One line takes a large part of the time",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    experiment="line",
    only_measured=True,
    by_host=True,
)
