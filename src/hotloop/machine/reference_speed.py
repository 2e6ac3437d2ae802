"""Times two fixed pieces of work, so that two runs can tell whether the machine itself changed.

A CPU of the same name may be clocked lower, or be another one below a virtual machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hotloop.core.errors import HotloopError
from hotloop.machine.matmul_rate import measure_gemm

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["reference_seconds"]

_SECONDS = 0.1  # for each piece: the fastest of about 100 loops, or of 10 products
_NUMBERS = (
    20_000  # of one loop in Python: about 1 ms, which 0.1 us of a clock read do not matter to
)


def reference_seconds(clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Return seconds by piece of work, the fastest of some: load of a moment does not count.

    The product is left out if it cannot be measured; it runs with the threads that torch has now.
    """
    began, fastest = clock(), float("inf")
    while (now := clock()) < began + _SECONDS:
        sum(number * number for number in range(_NUMBERS))
        fastest = min(fastest, clock() - now)
    seconds = {"Python": fastest}
    try:
        rates = measure_gemm("cpu", "fp32", budget_s=_SECONDS).readings
    except HotloopError:  # no product runs here: Python's loop remains
        return seconds
    return {**seconds, "products": 1e12 / max(rates)}  # of 1e12 FLOP
