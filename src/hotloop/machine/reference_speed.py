"""Times a fixed piece of work, so that two runs can tell whether the machine itself changed.

A CPU of the same name may be clocked lower, or be another one below a virtual machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["reference_seconds"]

_SECONDS = 0.1  # about 300 products, of which load leaves some alone
_SIZE = 256  # of the matrices: about 0.3 ms on one core


def reference_seconds(clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Return seconds by piece of work: a product of float32 matrices in torch on the CPU.

    It is the fastest of many, so that other processes hardly matter: their load is known apart. It
    repeats within 1 % from process to process on one machine; a loop in Python does not (0.68 to
    0.85 ms, docs/log.md, 2026-11-27).
    """
    import torch

    matrix = torch.ones(_SIZE, _SIZE, dtype=torch.float32, device="cpu")
    out = torch.empty_like(matrix)
    began, fastest = clock(), float("inf")
    with torch.no_grad():
        while (now := clock()) < began + _SECONDS:
            torch.mm(matrix, matrix, out=out)
            fastest = min(fastest, clock() - now)
    return {"products": fastest}
