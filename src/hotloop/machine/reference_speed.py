"""Times two fixed pieces of work, so that two runs can tell whether the machine itself changed.

A CPU of the same name may be clocked lower, or be another one below a virtual machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["reference_seconds"]

_SECONDS = 0.1  # for each piece: about 100 times, of which load leaves some alone
_NUMBERS = 20_000  # of one loop in Python: about 1 ms, so that reading the clock does not matter
_SIZE = 256  # of the product's matrices: about 0.3 ms on one core


def reference_seconds(clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Return seconds by piece of work: a loop in Python, and a product in torch on the CPU.

    Each is the fastest of many, so that other processes hardly matter: their load is known apart.
    """
    import torch

    matrix = torch.ones(_SIZE, _SIZE)
    out = torch.empty_like(matrix)
    with torch.no_grad():
        return {
            "Python": _fastest(lambda: sum(n * n for n in range(_NUMBERS)), clock),
            "products": _fastest(lambda: torch.mm(matrix, matrix, out=out), clock),
        }


def _fastest(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began, fastest = clock(), float("inf")
    while (now := clock()) < began + _SECONDS:
        work()
        fastest = min(fastest, clock() - now)
    return fastest
