"""Updates are lost in rounding: the weights are kept in half precision.

Looks at: the dtype of the parameters that an optimizer holds, and the size of sampled updates
    against the spacing of the numbers at the weights.
Says so when: parameters are bfloat16 or float16 and the median update is below half of the spacing,
    where rounding to nearest leaves the weight as it was.
Stays silent when: weights are float32, updates are large enough, or the optimizer rounds at random
    or keeps the rest.
Remedy: float32 weights with autocast, or an optimizer with stochastic rounding.
Numbers: the run changes: small updates are no longer lost.
Seen: examples/planted/bfloat16_weights.py.
Source: Zamirai et al. 2020, "Revisiting BFloat16 Training", https://arxiv.org/abs/2010.06192.
"""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case

__all__ = ["RULE"]

HALF = {"bfloat16", "float16"}
LOST = 0.5  # of the spacing: less is rounded away
KEEPS = re.compile(r"stochastic|kahan|master|mixed", re.IGNORECASE)


def judge(case: Case) -> Finding | None:
    """Compare the sampled updates with what half precision can hold."""
    for optimizer in case.optimizers:
        dtypes = sorted(HALF & {dtype for group in optimizer.groups for dtype in group.dtypes})
        if not dtypes or not optimizer.updates or KEEPS.search(optimizer.name):
            continue
        middle = statistics.median(optimizer.updates)
        if middle >= LOST:
            continue
        lost = sum(update < LOST for update in optimizer.updates) / len(optimizer.updates)
        return Finding(
            rule=RULE.label,
            claim=(
                f"{optimizer.name} updates {dtypes[0]} weights by {middle:.2g} of their spacing: "
                f"{lost:.0%} of the sampled updates are rounded away"
            ),
            severity="critical",
            places=[optimizer.place] if optimizer.place else [],
            evidence={"sampled tensors": f"{len(optimizer.updates)}"},
            remedies=[
                Remedy(
                    text="keep the weights in float32 and run the forward pass under "
                    "torch.autocast(device, torch.bfloat16)",
                    effort="code edit",
                ),
            ],
        )
    return None


RULE = Rule(
    id="P4",
    name="low_precision_update",
    title="Updates lost in rounding",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    weight=2,
    numerics="training",
    kind="correctness",
)
