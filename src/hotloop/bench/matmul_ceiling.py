"""Measures the rate of matrix products on this device, which bounds the rate of any training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.measurement import Measurement
from hotloop.core.units import count
from hotloop.jobs.forecast.memory_fit import precision_of
from hotloop.machine.matmul_rate import measure_gemm

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan

__all__ = ["Ceilings"]

_PRODUCTS = "matmul-onednn"


class Ceilings:
    """Product rates by precision, measured at their first use. `measure` is a seam."""

    def __init__(
        self,
        hardware: Hardware,
        *,
        threads: int | None = None,
        measure: Callable[[str, str], Measurement] = measure_gemm,
    ) -> None:
        self._hardware, self._threads, self._measure = hardware, threads, measure
        self.measured: dict[str, Measurement] = {}

    def of(self, plan: Plan) -> Measurement:
        """Return the FLOP/s of products in the precision of a plan."""
        dtype = precision_of(plan, self._hardware)
        if dtype not in self.measured:
            self._add(dtype)
        return self.measured[dtype]

    def why_impossible(self, plan: Plan, flops_per_s: float) -> str | None:
        """Return why a rate cannot be true if it exceeds the highest product rate, or None.

        The highest product rate is the fastest reading, or the published peak if that is higher.
        Products are measured again before a rate is refused, as the machine may have been busy.
        """
        dtype = precision_of(plan, self._hardware)
        if flops_per_s > self._highest(plan, dtype):
            self._add(dtype)
        if flops_per_s <= (highest := self._highest(plan, dtype)):
            return None
        return (
            f"{count(flops_per_s)}FLOP/s are above the {count(highest)}FLOP/s that {dtype} "
            f"products reach here at most ({flops_per_s / highest:.2f}x): it cannot be"
        )

    def _highest(self, plan: Plan, dtype: str) -> float:
        highest = max(self.of(plan).readings)
        gpu = self._hardware.gpu
        if gpu is not None:
            highest = max(highest, gpu.flops.get(dtype, 0.0))
        if plan.choice(_PRODUCTS) is not None and self._hardware.device == "cpu":
            from hotloop.machine.onednn_matmul import compare_products

            highest *= max(1.0, compare_products().rate)  # measured without it
        return highest

    def _add(self, dtype: str) -> None:
        """Measure with the number of threads of the plans."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self._threads or before)
        try:
            measurement = self._measure(self._hardware.device, dtype)
        finally:
            torch.set_num_threads(before)
        known = self.measured.get(dtype)
        readings = (*known.readings, *measurement.readings) if known else measurement.readings
        self.measured[dtype] = Measurement(unit=measurement.unit, readings=readings)
