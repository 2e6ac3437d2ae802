"""Forecasts the memory of each rank, and chooses the sharding technique that suits a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hotloop.core.sharding_ids import ZERO_BUCKET
from hotloop.core.units import bytes_
from hotloop.jobs.forecast import limits

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.jobs.forecast.memory_forecast import Forecast

__all__ = ["of_rank", "on_more_gpus", "suits"]

# Trained parameters above which row sharding pays on any GPU: at 16 bytes each (float32 with AdamW)
# they take 48 GB, and a step writes all of them (derived).
MANY: Final = 3_000_000_000


def of_rank(forecast: Forecast, plan: Plan) -> Forecast:
    """Return the forecast of one of the plan's ranks, with shares rounded up.

    With ddp it equals that of a single process, because gradients live in the communication
    buckets. With fsdp2, gathered weights (two blocks and all parameters outside of blocks) count as
    activations. DeepSpeed (0.19.8) adds a copy of the parameters that this rank updates, and a
    buffer in which gradients are sent.
    """
    rows, zero = plan.choice("fsdp2"), plan.choice("deepspeed")
    if plan.ranks == 1 or (rows is None and zero is None):
        return forecast
    buffers, weights = forecast.buffers_bytes, forecast.parameters_bytes - forecast.buffers_bytes
    gradients, gathered = forecast.gradients_bytes, 0
    state = -(-forecast.optimizer_bytes // plan.ranks)
    in_rows = -(-weights // plan.ranks)
    around = min(weights, forecast.outside_bytes + 2 * forecast.block_bytes)
    if rows is not None:
        gathered = around if rows.get("reshard", "on") == "on" else weights
        if rows.get("keep", "on") == "off" or plan.accumulation == 1:
            share = around / weights if weights else 0.0
            gathered += int(share * gradients)
            gradients = -(-gradients // plan.ranks)
        weights = in_rows
    elif zero is not None:  # its exchange at the end keeps gradients
        if zero.get("stage", 1) == 3:
            gathered, weights = around, in_rows
        else:
            state += -(-forecast.trained_bytes // plan.ranks)
        gathered += 4 * min(forecast.parameters, ZERO_BUCKET) + -(-gradients // plan.ranks)
    activations = forecast.activations_bytes + gathered
    return replace(
        forecast,
        parameters_bytes=weights + buffers,
        trained_bytes=min(weights, forecast.trained_bytes),
        gradients_bytes=gradients,
        optimizer_bytes=state,
        activations_bytes=activations,
        peak_bytes=weights + buffers + gradients + state + activations,
    )


def suits(forecast: Forecast, plan: Plan, hardware: Hardware) -> tuple[str, str]:
    """Return (technique, reason) for sharing a model among ranks if the user chose none."""
    text, fits = limits.memory_sentence(of_rank(forecast, plan.plus("ddp")), hardware)
    if forecast.trained > MANY:
        return "fsdp2", f"{forecast.trained / 1e9:.1f} B trained parameters are better kept in rows"
    if not fits:
        return "fsdp2", f"whole on each rank it is too much: {text}"
    return "ddp", f"{plan.ranks} ranks, and the model fits each of them"


def on_more_gpus(forecast: Forecast, plan: Plan, hardware: Hardware, batch_size: int) -> str | None:
    """Return a sentence on how a single-process run could use the other GPUs of this machine.

    Returns None if there are no other GPUs, or if several ranks share the run already.
    """
    count = hardware.count
    if plan.ranks > 1 or count < 2 or hardware.device != "cuda":
        return None
    how = f"torchrun --nproc-per-node {count} -m hotloop train ..."
    _, fits = limits.memory_sentence(forecast, hardware)
    if fits and forecast.trained <= MANY:
        return (
            f"1 of {count} is used, and one is enough for the model; all of them share each batch "
            f"with {how} (ddp)"
        )
    spread = plan.over(count, batch_size).plus("fsdp2")
    less, fits = limits.memory_sentence(of_rank(forecast, spread), hardware)
    verdict = "is forecast to fit" if fits else "is forecast to be too much still"
    return (
        f"1 of {count} is used; in rows over all of them (fsdp2) the run {verdict}: "
        f"{less.partition(' (')[0]} on each of {bytes_(hardware.memory_bytes or 0)}; {how}"
    )
