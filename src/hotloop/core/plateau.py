"""Detects a loss that has stayed at the level of guessing: ln(n) for n values.

A model that learns leaves this level within its first steps; knowing the distribution of the
classes is enough. Source: the entropy of a uniform distribution.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GUESSING", "PLATEAU", "guessing"]

PLATEAU = 0.01  # relative
GUESSING = 200  # steps after which a model should be better than at its start
FEWEST = 5  # losses of a quarter


def guessing(losses: Sequence[float], outputs: int) -> float | None:
    """Return the last loss if the first and last quarter are at ln(outputs), else None."""
    quarter = len(losses) // 4
    if quarter < FEWEST or outputs < 2:
        return None
    first, last = statistics.median(losses[:quarter]), statistics.median(losses[-quarter:])
    guess = math.log(outputs)
    stands = abs(last / guess - 1) <= PLATEAU and abs(last - first) <= PLATEAU * guess
    return last if stands else None
