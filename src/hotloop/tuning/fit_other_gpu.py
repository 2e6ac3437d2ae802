"""Which micro batches of a recipe would fit on a card that is not here: forecasts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hotloop.core.hardware import Hardware
from hotloop.jobs.forecast.limits import HEAD_ROOM
from hotloop.jobs.forecast.memory_fit import Forecasts, shapes

if TYPE_CHECKING:
    from hotloop.core.gpu_specs import GpuSpec
    from hotloop.jobs.job import PreparedRun

__all__ = ["ERROR", "MODES", "Fit", "fits"]

MODES: Final = ("off", "selective", "full")  # of activation checkpointing
# jobs/forecast/memory_forecast.py holds a forecast to a real step on the CPU; no card was there.
ERROR: Final = (
    "the live tensors within 2 % of a real step on the CPU; on a card not measured. Not in it: the "
    "CUDA context, workspaces and the allocator's rounding, for which a tenth is kept free"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One micro batch, with each mode of activation checkpointing."""

    micro_batch: int
    accumulation: int
    peak_bytes: dict[str, int]  # by mode
    room_bytes: int  # that may be forecast

    def fits(self, mode: str) -> bool:
        """Whether it fits with head-room."""
        return self.peak_bytes[mode] <= self.room_bytes


def fits(parts: PreparedRun, card: GpuSpec) -> list[Fit]:
    """Return the micro batches that divide the optimizer step's samples, the largest first.

    No more after three that fit without recomputing.

    The precision is what that card has: bf16 from compute capability 8.0 on, else fp16.
    """
    hardware = Hardware(
        device="cuda", name=card.name, capability=card.capability, memory_bytes=card.memory_bytes
    )
    low = "autocast-bf16" if card.capability >= (8, 0) else "autocast-fp16"
    whole = parts.plan.micro_batch * parts.plan.accumulation
    plain = replace(parts.plan, techniques=()).plus(low).plus("sdpa", backend="auto")
    forecasts = Forecasts(parts.job, hardware, shapes(parts.request.config, parts.job))
    found = []
    for size in sorted((n for n in range(1, whole + 1) if whole % n == 0), reverse=True):
        plan = replace(plain, micro_batch=size, accumulation=whole // size)
        peaks = {
            mode: forecasts.of(plan.plus("activation-checkpointing", mode=mode)).peak_bytes
            for mode in MODES
        }
        found.append(
            Fit(
                micro_batch=size,
                accumulation=whole // size,
                peak_bytes=peaks,
                room_bytes=int(HEAD_ROOM * card.memory_bytes),
            )
        )
        fitting = sum(fit.fits("off") for fit in found)
        if fitting == _FITTING:
            break
    return found


_FITTING: Final = 3  # sizes that fit as they are: smaller ones fit as well
