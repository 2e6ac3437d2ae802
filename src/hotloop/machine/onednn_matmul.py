"""Measures the accuracy and the speed of oneDNN's float32 matrix products on this CPU."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

from hotloop.machine.float32_precision import PrecisionSwitches

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["Products", "compare_products", "paired_rate"]

SIZE = 512  # rows and columns: a product takes some ms
PAIRS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """float32 matmul precision "medium", for which torch uses oneDNN, compared with "highest"."""

    relative_error: float  # of a product against float64, by the Frobenius norm
    same_bits: bool  # equal results: torch does not use oneDNN here
    rate: float  # of "medium", relative to "highest"


@cache
def compare_products() -> Products:
    """Compare both settings once per process, in about 0.1 s; the present setting is restored.

    On one thread, so that the thread count of the plan has no influence.
    """
    before, threads = PrecisionSwitches.now(), torch.get_num_threads()
    assert before is not None  # the technique has checked this
    source = torch.Generator().manual_seed(0)  # the global stream stays as it is
    left, right = (  # whatever the script's defaults are
        torch.randn(SIZE, SIZE, generator=source, dtype=torch.float32, device="cpu")
        for _ in range(2)
    )

    def at(precision: str) -> Tensor:
        torch.set_float32_matmul_precision(precision)
        return left @ right

    try:
        torch.set_num_threads(1)
        plain, other = at("highest"), at("medium")
        same = torch.equal(plain, other)
        rate = 1.0 if same else paired_rate(lambda: at("medium"), lambda: at("highest"))
    finally:
        torch.set_num_threads(threads)
        before.put_back()
    exact = left.double() @ right.double()
    error = float((other - exact).norm() / exact.norm())
    return Products(relative_error=error, same_bits=same, rate=rate)


def paired_rate(
    new: Callable[[], object],
    old: Callable[[], object],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the rate of `new` relative to `old`, the median of PAIRS pairs.

    They are timed alternately, so that other load affects both.
    """
    ratios = []
    for _ in range(PAIRS):
        began = clock()
        old()
        between = clock()
        new()
        ratios.append((between - began) / max(clock() - between, 1e-9))
    return statistics.median(ratios)
