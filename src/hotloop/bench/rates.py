"""From a trial to the figures of its rung: rates, utilisation, memory, and what bars them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.measurement import Measurement
from hotloop.core.units import count
from hotloop.jobs.forecast.time_estimate import Timing, Workload, estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.bench.matmul_ceiling import Ceilings
    from hotloop.bench.tokens_per_sample import Work
    from hotloop.bench.trial_listener import Heard
    from hotloop.core.trial import Trial
    from hotloop.jobs.forecast.time_estimate import Estimate
    from hotloop.jobs.job import PreparedRun

__all__ = ["Figures", "figures", "forecast_epoch"]

_NO_CARD = "this machine trains on its CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is known of a rung, why the rest is not, and why none of it can be true."""

    values: Mapping[str, float]
    unknown: Mapping[str, str]
    impossible: str | None = None


def figures(
    parts: PreparedRun,
    work: Work,
    trial: Trial,
    heard: Heard,
    ceilings: Ceilings,
    why_no_card: str | None,
) -> Figures:
    """Return the figures of a trial that is ok; rates are of its median round.

    Where rows differ in length, the FLOP of a mean one are not known: those that are forecast are
    of the longest.
    """
    assert trial.step_time is not None
    step, found = trial.step_time.median, dict[str, float | None]()
    batch = trial.plan.micro_batch * trial.plan.accumulation
    found["it_per_s"] = 1 / step
    found["samples_per_s"] = batch / step
    found["tokens_per_s"] = tokens_per_s = batch * work.tokens / step
    found["targets_per_s"] = batch * work.targets / step
    unknown, impossible = dict[str, str](), None
    if parts.flops_per_token is None:
        unknown |= dict.fromkeys(("mfu", "of_ceiling"), "the model's FLOP are not known")
    elif parts.job.widest is not None:
        unknown |= dict.fromkeys(("mfu", "of_ceiling"), "rows differ, and so do their FLOP")
    else:
        rate = parts.flops_per_token * tokens_per_s
        ceiling = ceilings.of(trial.plan)
        peak = _peak(parts, trial, ceiling)
        found |= {"mfu": rate / peak, "of_ceiling": rate / ceiling.median}
        impossible = ceilings.why_impossible(trial.plan, rate)
        if impossible is not None:
            tokens, flops = count(tokens_per_s), count(parts.flops_per_token)
            impossible = f"{tokens} tokens/s x {flops}FLOP a token: {impossible}"
    found |= {"start_s": heard.said.get("start"), "compile_s": heard.said.get("compile")}
    busy, cores = heard.busy_cores, parts.hardware.cores
    found["cpu_util"] = None if busy is None or not cores else busy / cores
    found["ram"] = float(heard.peak_bytes) or None
    if parts.hardware.device == "cpu":
        unknown |= dict.fromkeys(("gpu_util", "vram", "temperature_c"), _NO_CARD)
    else:
        found |= {"vram": trial.peak_bytes if trial.peak_of == "card" else None, **heard.card}
        unknown |= dict.fromkeys(("gpu_util", "temperature_c"), why_no_card or "it was not read")
    values = {name: float(value) for name, value in found.items() if value is not None}
    why = {name: said for name, said in unknown.items() if name not in values}
    return Figures(values=values, unknown=why, impossible=impossible)


def _peak(parts: PreparedRun, trial: Trial, ceiling: Measurement) -> float:
    """Return the published FLOP/s where they are known, else those measured."""
    from hotloop.jobs.forecast.memory_fit import precision_of

    card = parts.hardware.card
    if card is None:
        return ceiling.median
    return card.flops.get(precision_of(trial.plan, parts.hardware), ceiling.median)


def forecast_epoch(
    parts: PreparedRun, trial: Trial, said: Mapping[str, Any], *, steps: int | None = None
) -> Estimate | None:
    """Return what one epoch of `parts` takes with its validations and saves; None where unknown.

    `steps` are those of a part of an epoch.
    `said` is the last word of the trial: seconds of its start, a validation and a save.
    """
    aside, step = said.get("aside"), trial.step_time
    if step is None or not aside:
        return None
    training = parts.request.config.training
    timing = Timing(
        start=float(said["start"]),
        compile=float(said["compile"]),
        step=step,
        data_wait=float(said["data_wait"]),
        validation=Measurement(unit="s", readings=tuple(aside["validation"])),
        save=aside["save"],
        losses=(0.0, 0.0),
        made=trial.steps,
    )
    work = Workload.of(
        training,
        steps=steps or parts.feed.steps_per_epoch,
        steps_per_epoch=parts.feed.steps_per_epoch,
        micro_batch=trial.plan.micro_batch,
        validation=len(parts.job.valid),
    )
    return estimate(timing, work, training)
