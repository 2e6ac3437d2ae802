"""torch.distributions checks the arguments and values of small distributions in each step.

Looks at: the sampled time in the checks of torch.distributions.
Says so when: an experiment without the checks gained 3 % or more.
Stays silent when: they are off.
Remedy: torch.distributions.Distribution.set_default_validate_args(False) once the training works;
    on a GPU each check waits for the device.
Numbers: bitwise the same, and a wrong argument gives no error.
Seen: examples/planted/checked_policy.py.
Source: https://docs.pytorch.org/docs/stable/distributions.html
    (Distribution.set_default_validate_args: "Validation may be expensive")
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.slow_calls import distribution_checks

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Take the sampled time of the checks."""
    if all(one.name != "no distribution checks" for one in case.experiments):
        return None
    return costing(
        case,
        distribution_checks(case),
        claim="torch.distributions checks the arguments of each distribution",
        remedies=[
            code_edit(
                "torch.distributions.Distribution.set_default_validate_args(False) before "
                "training, once it works (pyro.enable_validation(False) with Pyro)"
            )
        ],
    )


RULE = Rule(
    title="Distributions check their arguments",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    numerics="bitwise",
    experiment="no distribution checks",
    only_measured=True,
)
