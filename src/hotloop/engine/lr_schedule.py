"""Learning-rate schedules as pure functions of the optimizer step."""

import math
from collections.abc import Callable
from typing import Literal

__all__ = ["Kind", "Schedule", "schedule"]

Kind = Literal["constant", "linear", "cosine"]
Schedule = Callable[[int], float]


def schedule(kind: Kind, *, peak: float, floor: float, warmup: int, total: int | None) -> Schedule:
    """Return step -> learning rate; step 0 is the first optimizer step.

    Linear warm-up over `warmup` steps, then `kind` from `peak` to `floor` at step `total`, and
    `floor` after it. Without a total (an open end) the rate stays at `peak`.
    """

    def rate(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / (warmup + 1)
        if kind == "constant" or total is None:
            return peak
        done = min(1.0, (step - warmup) / max(1, total - warmup))
        if kind == "linear":
            return peak + (floor - peak) * done
        return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return rate
