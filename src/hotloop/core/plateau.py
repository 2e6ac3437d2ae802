"""Tells a loss that has stayed where guessing puts it: at ln(n), among n values.

A model that has learned anything leaves it within its first steps; the distribution of the classes
alone takes it below. Source: the entropy of a uniform distribution.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GUESSING", "guessing"]

PLATEAU = 0.01  # relative
GUESSING = 200  # steps after which a model should know more than at its start
FEWEST = 5  # losses of a quarter


def guessing(losses: Sequence[float], outputs: int) -> float | None:
    """Return the loss where the first and the last quarter stand at ln(outputs); None elsewhere."""
    quarter = len(losses) // 4
    if quarter < FEWEST or outputs < 2:
        return None
    first, last = statistics.median(losses[:quarter]), statistics.median(losses[-quarter:])
    guess = math.log(outputs)
    stands = abs(last / guess - 1) <= PLATEAU and abs(last - first) <= PLATEAU * guess
    return last if stands else None
