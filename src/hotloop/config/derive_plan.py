"""Derives a plan from configuration and hardware, with a reason for every choice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.config.layers import SettingsLayer
from hotloop.core.plan import Plan, Use
from hotloop.core.sharding_ids import SHARING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.config.common import Training
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Value

__all__ = ["Choice", "RequestedTechnique", "auto_layer", "derive_plan", "for_ranks"]

GIB = 1 << 30
SHORT_CONTEXT = 512  # naive attention won at 128 and 256 and lost at 1024 (TECHNIQUES, 2 cores)
LONG_RUN = 2000  # optimizer steps below which compiling for 11-24 s is not assumed to pay back
TRIED_FROM = 2000  # micro batches; a trial of CUDA graphs takes some 40, 2 % of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One technique of a derived plan."""

    use: Use
    origin: str  # origin of the setting that chose it, or "auto"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTechnique:
    """A technique that a setting requests or excludes."""

    key: str  # of the setting
    choice: Mapping[str, Value] = field(default_factory=dict)
    is_wanted: bool = True


def auto_layer(hardware: Hardware) -> SettingsLayer:
    """Return the settings of `preset=auto`: the batch size, by the memory of the device.

    96, 128 and 192 are the batch sizes of the 12, 16 and 24 GB presets. The usable memory of a GPU
    is a little below its nominal size, and so are the limits.
    """
    if hardware.device == "cpu":
        values = {"training.batch_size": 48, "training.accumulation": 4}
        why = "CPU: 4 micro batches of 12, the fastest size measured on 2 cores"
    else:
        memory = (hardware.memory_bytes or 0) / GIB
        sizes = ((70, 384), (22, 192), (15, 128), (11, 96), (7.5, 64))
        batch = next((size for least, size in sizes if memory >= least), 32)
        values = {"training.batch_size": batch}
        why = f"{memory:.0f} GiB on {hardware.name}" if memory else "memory unknown"
    return SettingsLayer(origin=f"auto ({why})", values=values)


def for_ranks(plan: Plan, ranks: int, batch_size: int) -> Plan:
    """Return a plan adapted to another number of ranks.

    Several ranks need one technique that shares the model or its gradients; without one, ddp is
    added. A single process needs none of them.
    """
    plan = plan.over(ranks, batch_size)
    there = [id for id in SHARING if plan.choice(id) is not None]
    if ranks > 1 and not there:
        return plan.plus("ddp")
    for id in there if ranks == 1 else ():
        plan = plan.minus(id)
    return plan


def derive_plan(
    training: Training,
    attention: tuple[str, int] | None,
    hardware: Hardware,
    *,
    origins: Mapping[str, str],
    steps: int,
    threads: tuple[int, str],
    ranks: int = 1,
    freezes: bool = False,
) -> tuple[Plan, list[Choice]]:
    """Return the plan for a configuration on this machine, with a reason for each technique.

    `freezes` tells whether matrices of the model are not trained. A requested technique stays in
    the plan even where it cannot work, and the engine then reports it; a derived one is left out.
    Raises PlanError when a micro batch would be empty.
    """
    choices = [
        *_precision(training.precision, hardware, origins["training.precision"]),
        *_compile(training.use_compile, hardware, origins["training.use_compile"], steps),
        *_optimizer(training.optim, origins["training.optim"]),
        _always("gc-freeze", "a full garbage collection in mid-run stalls the loop"),
    ]
    if hardware.device == "cpu":
        count, why = threads
        choices.append(Choice(use=Use.of("threads", count=count), origin="auto", reason=why))
        choices.append(_always("kept-memory", "the next step maps none of its memory anew"))
    else:
        choices.append(_always("lagged-loss-read", "reading a loss each step drains the queue"))
    if hardware.device == "cuda" and attention is None:  # a pretrained model has its own attention
        choices.append(_always("fused-rms-norm", "a norm written out is some 20 kernels"))
    if hardware.device == "cuda" and ranks == 1 and steps * training.accumulation >= TRIED_FROM:
        reason = "kept if replays of the first micro batches are faster than eager passes"
        use = Use.of("cuda-graphs", when="faster")
        choices.append(Choice(use=use, origin="auto", reason=reason))
    shape = Plan(
        micro_batch=training.batch_size // training.accumulation, accumulation=training.accumulation
    ).over(ranks, training.batch_size)
    if ranks > 1:
        choices.append(_always("ddp", f"{ranks} ranks, and the model fits each of them"))
    usable = [choice for choice in choices if _works(choice.use, hardware, shape)]
    low = any(choice.use.id.startswith("autocast") for choice in usable)
    choices = [choice for choice in choices if choice.origin != "auto" or choice in usable]
    if hardware.device == "cpu" and not low:
        choices.append(
            _always("matmul-onednn", "float32 products through oneDNN keep float32 accuracy")
        )
    if freezes and low:
        choices.append(_always("frozen-16bit", "what is not trained needs no float32"))
    if attention is not None:
        choices.append(_attention(*attention, hardware, low, origins["model.attention"]))
    choices.sort(key=lambda choice: choice.use.id)
    return replace(shape, techniques=tuple(choice.use for choice in choices)), choices


def _works(use: Use, hardware: Hardware, shape: Plan) -> bool:
    plan = replace(shape, techniques=(use,))
    return techniques.get(use.id).blocked(hardware, plan) is None


def _always(id: str, reason: str) -> Choice:
    return Choice(use=Use.of(id), origin="auto", reason=reason)


def _precision(precision: str, hardware: Hardware, origin: str) -> list[Choice]:
    if precision in ("bf16", "fp16"):
        return [Choice(use=Use.of(f"autocast-{precision}"), origin=origin, reason="asked for")]
    no_bf16, no_fp16 = hardware.why_no_bf16(), hardware.why_no_fp16()
    if precision == "auto" and no_bf16 is None:
        reason = "this device has bf16 matrix units"
        return [Choice(use=Use.of("autocast-bf16"), origin="auto", reason=reason)]
    if precision == "auto" and no_fp16 is None:
        return [Choice(use=Use.of("autocast-fp16"), origin="auto", reason=f"no bf16: {no_bf16}")]
    if precision == "fp32" and origin == "command line":
        return []  # float32 was typed: TF32 would be something else
    if hardware.why_no_tf32() is None:
        return [_always("tf32", "float32 products on tensor cores")]
    return []


def _optimizer(optim: str, origin: str) -> list[Choice]:
    if optim == "adamw_8bit":
        return [Choice(use=Use.of("adamw-8bit"), origin=origin, reason="asked for")]
    if optim == "adafactor":
        return []
    return [_always("fused-adamw", "one kernel instead of one per operation; same formula")]


def _compile(use_compile: str, hardware: Hardware, origin: str, steps: int) -> list[Choice]:
    if use_compile == "true":
        return [Choice(use=Use.of("compile"), origin=origin, reason="asked for")]
    if use_compile == "auto" and hardware.device == "cuda" and steps >= LONG_RUN:
        reason = f"{steps} steps on a GPU are enough to pay a compilation back"
        return [Choice(use=Use.of("compile"), origin="auto", reason=reason)]
    return []


def _attention(
    kernel: str, context: int, hardware: Hardware, low_precision: bool, origin: str
) -> Choice:
    if kernel != "auto":
        return Choice(use=Use.of("sdpa", backend=kernel), origin=origin, reason="asked for")
    if hardware.device == "cpu" and low_precision and context <= SHORT_CONTEXT:
        reason = f"written-out products win in bf16 on a CPU up to context {SHORT_CONTEXT}"
        return Choice(use=Use.of("sdpa", backend="naive"), origin="auto", reason=reason)
    reason = "torch picks a fused kernel"
    return Choice(use=Use.of("sdpa", backend="auto"), origin="auto", reason=reason)
