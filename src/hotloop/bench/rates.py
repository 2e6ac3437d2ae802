"""Computes the figures of a rung from its trial: rates, utilisation, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.measurement import Measurement
from hotloop.core.units import count
from hotloop.jobs.forecast.memory_fit import precision_of
from hotloop.jobs.forecast.time_estimate import Timing, Workload, estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.bench.matmul_ceiling import Ceilings
    from hotloop.bench.tokens_per_sample import Work
    from hotloop.bench.trial_listener import TrialListener
    from hotloop.core.trial import Trial
    from hotloop.jobs.forecast.time_estimate import Estimate
    from hotloop.jobs.job import PreparedRun

__all__ = ["Figures", "figures", "forecast_epoch"]

_NO_GPU = "this machine trains on its CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a rung, the reasons for unknown ones, and why the rates cannot be true."""

    values: Mapping[str, float]
    unknown: Mapping[str, str]
    impossible: str | None = None


def figures(
    prepared: PreparedRun,
    work: Work,
    trial: Trial,
    listener: TrialListener,
    ceilings: Ceilings,
    why_no_gpu: str | None,
) -> Figures:
    """Return the figures of a successful trial; rates are those of its median round.

    MFU is unknown if rows differ in length, as FLOP are forecast for the longest row only.
    """
    assert trial.step_time is not None
    step, known = trial.step_time.median, dict[str, float | None]()
    batch = trial.plan.micro_batch * trial.plan.accumulation
    known["it_per_s"] = 1 / step
    known["samples_per_s"] = batch / step
    known["tokens_per_s"] = tokens_per_s = batch * work.tokens / step
    known["targets_per_s"] = batch * work.targets / step
    unknown, impossible = dict[str, str](), None
    if prepared.flops_per_token is None:
        unknown |= dict.fromkeys(("mfu", "of_ceiling"), "the model's FLOP are not known")
    elif prepared.job.widest is not None:
        unknown |= dict.fromkeys(("mfu", "of_ceiling"), "rows differ, and so do their FLOP")
    else:
        rate = prepared.flops_per_token * tokens_per_s
        ceiling = ceilings.of(trial.plan)
        peak = _peak(prepared, trial, ceiling)
        known |= {"mfu": rate / peak, "of_ceiling": rate / ceiling.median}
        impossible = ceilings.why_impossible(trial.plan, rate)
        if impossible is not None:
            tokens, flops = count(tokens_per_s), count(prepared.flops_per_token)
            impossible = f"{tokens} tokens/s x {flops}FLOP a token: {impossible}"
    known |= {f"{what}_s": listener.message.get(what) for what in ("start", "compile")}
    busy, cores = listener.busy_cores, prepared.hardware.cores
    known["cpu_util"] = None if busy is None or not cores else busy / cores
    known["ram"] = float(listener.peak_bytes) or None
    if prepared.hardware.device == "cpu":
        unknown |= dict.fromkeys(("gpu_util", "vram", "temperature_c"), _NO_GPU)
    else:
        known |= {"vram": trial.peak_bytes if trial.peak_of == "gpu" else None, **listener.gpu}
        unknown |= dict.fromkeys(("gpu_util", "temperature_c"), why_no_gpu or "it was not read")
    values = {name: float(value) for name, value in known.items() if value is not None}
    why = {name: reason for name, reason in unknown.items() if name not in values}
    return Figures(values=values, unknown=why, impossible=impossible)


def _peak(prepared: PreparedRun, trial: Trial, ceiling: Measurement) -> float:
    """Return the published peak FLOP/s if known, else the measured FLOP/s."""
    gpu = prepared.hardware.gpu
    if gpu is None:
        return ceiling.median
    return gpu.flops.get(precision_of(trial.plan, prepared.hardware), ceiling.median)


def forecast_epoch(
    prepared: PreparedRun, trial: Trial, message: Mapping[str, Any], *, steps: int | None = None
) -> Estimate | None:
    """Return the forecast time of one epoch with its validations and saves; None if unknown.

    `steps` limits the epoch to its first steps. `message` is the last one of the trial, with the
    seconds of its start, a validation and a save.
    """
    aside, step = message.get("aside"), trial.step_time
    if step is None or not aside:
        return None
    training = prepared.request.config.training
    timing = Timing(
        start=float(message["start"]),
        compile=float(message["compile"]),
        step=step,
        data_wait=float(message["data_wait"]),
        validation=Measurement(unit="s", readings=tuple(aside["validation"])),
        save=aside["save"],
        losses=(0.0, 0.0),
        made=trial.steps,
    )
    work = Workload.of(
        training,
        steps=steps or prepared.feed.steps_per_epoch,
        steps_per_epoch=prepared.feed.steps_per_epoch,
        micro_batch=trial.plan.micro_batch,
        validation=len(prepared.job.valid),
    )
    return estimate(timing, work, training)
