"""The GPU is always busy, but draws little power: what runs on it is small.

Looks at: utilisation (the share of time in which any kernel runs) and power.
Says so when: utilisation is 90 % or more and power below half of the limit.
Stays silent when: it draws power, or is not busy.
Remedy: larger micro batches, compilation, 16 bit: H1, G4 and G12 say which.
Numbers: rounding.
Seen: golden cases only; not yet seen on a GPU.
Source: https://github.com/XuehaiPan/nvitop/issues/189
"""

from statistics import median

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option

__all__ = ["RULE"]

BUSY, WORKING = 0.90, 0.50  # of the time; of the power limit
NAMES = ("gpu_utilisation", "gpu_power_w", "gpu_power_limit_w")


def judge(case: Case) -> Finding | None:
    """Compare the utilisation with the power draw."""
    readings_by_name = [case.readings.get(name) for name in NAMES]
    if not all(readings_by_name):
        return None
    busy, watts, limit = (median(readings or ()) for readings in readings_by_name)
    if busy < BUSY or watts >= WORKING * limit:
        return None
    return Finding(
        claim=f"the GPU is busy {busy:.0%} of the time at {watts / limit:.0%} of its power",
        severity="warn",
        remedies=[
            Remedy(text="a larger micro batch (hotloop explain low-utilisation)"),
            option("hotloop doctor --profile shows which operations are small"),
        ],
    )


RULE = Rule(
    title="The GPU is busy without doing much",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU, Needs.READINGS),
    under="G25",
    numerics="rounding",
)
