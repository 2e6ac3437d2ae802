"""Forecasts which micro batches of a recipe would fit on a GPU that is not in this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hotloop.core.hardware import HEAD_ROOM, Hardware
from hotloop.jobs.forecast.memory_fit import Forecasts, shapes

if TYPE_CHECKING:
    from hotloop.core.gpu_specs import GpuSpec
    from hotloop.jobs.job import PreparedRun

__all__ = ["ERROR", "MODES", "Fit", "fits"]

MODES: Final = ("off", "selective", "full")  # of activation checkpointing
# jobs/forecast/memory_forecast.py was compared with a real step on a CPU, not on a GPU.
ERROR: Final = (
    "the live tensors within 2 % of a real step on the CPU; on a GPU not measured. Not in it: the "
    "CUDA context, workspaces and the allocator's rounding, for which a tenth is kept free"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One micro batch, with each mode of activation checkpointing."""

    micro_batch: int
    accumulation: int
    peak_bytes: dict[str, int]  # by mode
    room_bytes: int  # highest forecast that fits

    def fits(self, mode: str) -> bool:
        """Whether the micro batch fits with head-room."""
        return self.peak_bytes[mode] <= self.room_bytes


def fits(prepared: PreparedRun, gpu: GpuSpec) -> list[Fit]:
    """Return the micro batches that divide the samples of an optimizer step, the largest first.

    The list ends after three that fit without activation checkpointing. The precision is bf16 from
    compute capability 8.0 on, else fp16.
    """
    hardware = Hardware(
        device="cuda", name=gpu.name, capability=gpu.capability, memory_bytes=gpu.memory_bytes
    )
    low = "autocast-bf16" if gpu.capability >= (8, 0) else "autocast-fp16"
    whole = prepared.plan.micro_batch * prepared.plan.accumulation
    plain = replace(prepared.plan, techniques=()).plus(low).plus("sdpa", backend="auto")
    forecasts = Forecasts(prepared.job, hardware, shapes(prepared.request.config, prepared.job))
    results, room = [], int(HEAD_ROOM * gpu.memory_bytes)
    for size in sorted((n for n in range(1, whole + 1) if whole % n == 0), reverse=True):
        plan = replace(plain, micro_batch=size, accumulation=whole // size)
        peaks = {
            mode: forecasts.of(plan.plus("activation-checkpointing", mode=mode)).peak_bytes
            for mode in MODES
        }
        count = whole // size
        results.append(Fit(micro_batch=size, accumulation=count, peak_bytes=peaks, room_bytes=room))
        if sum(fit.fits("off") for fit in results) == _FITTING:
            break
    return results


_FITTING: Final = 3  # sizes that fit as they are; smaller ones fit as well
