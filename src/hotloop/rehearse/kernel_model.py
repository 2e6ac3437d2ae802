"""Estimates how long a card needs for the operators of a step: a roofline with two shares.

An operator takes as long as its FLOPs at a share of the peak of its precision, or as its bytes at a
share of the bandwidth, whichever is longer (Williams, Waterman, Patterson 2009, "Roofline",
https://doi.org/10.1145/1498765.1498785). The two shares are fitted to published throughputs;
kernel_model.json holds them with the errors on figures that were held back from the fit. It is
written by `python -m benchmarks.rehearsals fit`. The time that a kernel takes to start is missing:
a step of many small kernels takes a card longer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.case.rehearsal import StepEstimate
from hotloop.rehearse.kernel_kinds import CONVOLUTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.core.case.rehearsal import KernelWork, RehearsedRun
    from hotloop.core.gpu_specs import GpuSpec

__all__ = ["MODEL", "KernelModel", "device_seconds", "estimate", "rates"]

# FLOP/s in fp64 as a share of those in fp32; 1/64 on other cards. CUDA Programming Guide 13.0,
# "Arithmetic instructions", results per cycle and multiprocessor.
_DOUBLE: Final = {(7, 5): 1 / 32, (8, 0): 1 / 2, (9, 0): 1 / 2, (10, 0): 1 / 2}
# bytes/s of 16 lanes of PCIe 5.0, 4.0 and 3.0, which cards from this capability on have (vendors'
# data sheets); one with 8 lanes, such as the RTX 4060, has half of it.
_BUS: Final = (((9, 0), 63e9), ((8, 0), 31.5e9), ((0, 0), 15.75e9))
_ROUGH: Final = 0.3  # median error above which a figure is an order of magnitude (issue 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModel:
    """The shares of the peaks that kernels reach, and how wrong the estimates were."""

    compute: float  # of the peak FLOP/s
    bandwidth: float  # of the published bytes/s
    fitted: int  # published figures that the shares were fitted to
    held_back: int  # others
    median_error: float  # of the throughputs held back, as a share of the published one
    largest_error: float  # of all


def _read() -> KernelModel:
    text = (Path(__file__).parent / "kernel_model.json").read_text(encoding="utf-8")
    return KernelModel(**json.loads(text))


MODEL: Final = _read()


def device_seconds(
    work: Iterable[KernelWork], gpu: GpuSpec, model: KernelModel = MODEL
) -> float | str:
    """Return the seconds of a card for some operators, or why they are not known."""
    if gpu.bandwidth is None:
        return "no bandwidth of this card is known"
    seconds, rate = 0.0, model.bandwidth * gpu.bandwidth
    for one in work:
        least = one.bytes / rate
        if one.precision is not None:
            peak = gpu.flops.get(one.precision)
            if peak is None:
                return f"no peak of this card in {one.precision} is known"
            least = max(least, one.flops / (model.compute * peak))
        seconds += one.calls * least
    return seconds


def rates(gpu: GpuSpec, model: KernelModel = MODEL) -> tuple[float, ...] | None:
    """Return the rates of a simulated card whose work takes time; None if they are not known.

    FLOP/s in fp64, fp32, tf32, fp16 and bf16, then the bytes/s of its memory and of the bus. A
    format without tensor cores has the rate of fp32.
    """
    single = gpu.flops.get("fp32")
    if gpu.bandwidth is None or single is None:
        return None
    double = single * _DOUBLE.get(gpu.capability, 1 / 64)
    products = [double, single, *(gpu.flops.get(name, single) for name in ("tf32", "fp16", "bf16"))]
    bus = next(rate for least, rate in _BUS if gpu.capability >= least)
    computed = (model.compute * rate for rate in products)
    return (*computed, model.bandwidth * gpu.bandwidth, model.bandwidth * bus)


def estimate(run: RehearsedRun, larger: RehearsedRun | None, gpu: GpuSpec) -> StepEstimate | None:
    """Compare the host's time for a step with an estimate of the card's.

    `larger` is a run with another batch; with it the batch is told from which on the card needs
    more time than this host. None if no step was counted.
    """
    if run.host_seconds is None or not run.launches:
        return None
    host = run.host_seconds
    known: dict[str, Any] = {
        "host_seconds": host,
        "median_error": MODEL.median_error,
        "largest_error": MODEL.largest_error,
        "held_back": MODEL.held_back,
        "figures": MODEL.fitted + MODEL.held_back,
        "is_rough": MODEL.median_error > _ROUGH,
    }
    seconds = device_seconds(run.work, gpu) if run.work else "no operator was counted"
    if isinstance(seconds, str):
        return StepEstimate(card_seconds=None, why_not=seconds, **known)
    if CONVOLUTIONS in run.kernels:
        why = (
            "convolutions launch other kernels here than on a card, which takes the host other time"
        )
        return StepEstimate(card_seconds=seconds, why_no_limit=why, **known)
    return StepEstimate(card_seconds=seconds, card_from=_from(run, larger, gpu, seconds), **known)


def _from(
    run: RehearsedRun, larger: RehearsedRun | None, gpu: GpuSpec, seconds: float
) -> int | None:
    """Return the batch at which the card's time, on a line through two runs, meets the host's."""
    if larger is None or larger.batch is None or run.batch is None or run.host_seconds is None:
        return None
    other = device_seconds(larger.work, gpu) if larger.work else ""
    if isinstance(other, str) or larger.batch <= run.batch or other <= seconds:
        return None
    slope = (other - seconds) / (larger.batch - run.batch)
    return max(1, round(run.batch + (run.host_seconds - seconds) / slope))
