"""Updates are lost in rounding: the weights are kept in half precision.

Looks at: the parameters of each 16-bit dtype that an optimizer holds: numbers with a gradient, from
    tensors sampled by their elements, before and after an update.
Says so when: more than half of the updates of a dtype leave the weight as it was, because they are
    below half of the spacing of the numbers there, and more than half of the weights are at the
    last look what they were at the first. A note while the learning rate still rises.
Stays silent when: weights are float32, updates are large enough, or the optimizer rounds at random
    or keeps the rest.
Remedy: float32 weights with autocast, or an optimizer with stochastic rounding.
Numbers: the run changes: small updates are no longer lost.
Seen: examples/planted/bfloat16_weights.py.
Source: Zamirai et al. 2020, "Revisiting BFloat16 Training", https://arxiv.org/abs/2010.06192.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

if TYPE_CHECKING:
    from hotloop.core.case.objects import Optimizer

__all__ = ["RULE"]

MOST = 0.5  # of the numbers of a dtype
KEEPS = re.compile(r"stochastic|kahan|master|mixed", re.IGNORECASE)


def judge(case: Case) -> Finding | None:
    """Look at each dtype separately, so that a few large vectors do not hide losses of matrices."""
    for optimizer in case.optimizers:
        bad = [lost for lost in optimizer.lost if lost.share > MOST and lost.never > MOST]
        if not bad or KEEPS.search(optimizer.name):
            continue
        lost = max(bad, key=lambda loss: loss.numbers)
        rising = _rises(optimizer)
        return Finding(
            claim=(
                f"{lost.share:.0%} of the updates that {optimizer.name} makes to "
                f"{lost.numbers:,} {lost.dtype} weights are rounded away"
                + (" so far, while the learning rate rises" if rising else "")
            ),
            severity="note" if rising else "critical",
            places=[optimizer.place] if optimizer.place else [],
            evidence={
                "weights that never moved": f"{lost.never:.0%}",
                "sampled tensors": f"{lost.tensors}, by their elements",
            },
            remedies=[
                code_edit(
                    "keep the weights in float32 and run the forward pass under "
                    "torch.autocast(device, torch.bfloat16)"
                ),
            ],
        )
    return None


def _rises(optimizer: Optimizer) -> bool:
    """Whether the learning rate was highest when last sampled, as in an unfinished warm-up."""
    rates = [rate for _, rate in optimizer.rates]
    return bool(rates) and rates[-1] == max(rates) > rates[0]


RULE = Rule(
    title="Updates lost in rounding",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
