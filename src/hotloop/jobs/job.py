"""Assembles a run (hardware, data, job, plan and forecast) before anything is written."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hotloop.config.schema import flatten
from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError
from hotloop.core.progress import Note, Working
from hotloop.core.units import many
from hotloop.core.version import code_version
from hotloop.engine import apply_plan
from hotloop.engine.checkpoint.state import Identity
from hotloop.engine.init_from import read_weights
from hotloop.jobs.decide import decide
from hotloop.jobs.forecast import limits as preflight
from hotloop.jobs.forecast.memory_fit import precision_of
from hotloop.jobs.forecast.per_rank_memory import on_more_gpus
from hotloop.machine.allocator_cap import cap_memory
from hotloop.machine.detect import detect
from hotloop.recipes.building.declared_code import CODE, digests
from hotloop.session.accumulation_windows import AccumulationWindows
from hotloop.session.ranks import SINGLE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.core.progress import Notify
    from hotloop.jobs.decide import Decision
    from hotloop.jobs.request import RunRequest
    from hotloop.session.batch import PreparedData
    from hotloop.session.job import Job
    from hotloop.session.ranks import ProcessGroup

__all__ = [
    "PreparedRun",
    "assemble",
    "default_folder",
    "prepare_data",
    "run_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """Everything that is known about a run before its folder is created."""

    request: RunRequest
    hardware: Hardware
    data: PreparedData
    job: Job
    feed: AccumulationWindows
    steps: int  # optimizer steps of the whole run
    decision: Decision
    ranks: ProcessGroup = SINGLE_PROCESS

    @property
    def plan(self) -> Plan:
        """The plan that the run is trained with."""
        return self.decision.plan

    @property
    def identity(self) -> Identity:
        """The properties of the run that a checkpoint must match."""
        return Identity(
            train_data=self.job.train.fingerprint,
            validation_data=self.job.valid.fingerprint,
            batch_size=self.feed.batch_size,
            seed=self.job.seed,
            objective=self.job.objective,
            drop_last=self.feed.drop_last,
        )

    def doubts(self) -> list[str]:
        """Return warnings for the user before a run of hours, one sentence each."""
        training, decision, memory = self.request.config.training, self.decision, None
        long = preflight.long_validation(training, self.feed, len(self.job.valid))
        if decision.too_much is not None:
            memory = f"memory: {decision.memory}; {decision.too_much}"
        return [doubt for doubt in (long, memory, decision.packing) if doubt is not None]

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of one checkpoint: the trained weights (the size of their gradients) and state."""
        return self.decision.forecast.gradients_bytes + self.decision.forecast.optimizer_bytes

    @property
    def flops_per_token(self) -> float | None:
        """FLOPs of the model for one token, forward and backward; None if unknown."""
        size, job = self.plan.micro_batch, self.job
        tokens = size * job.train.batch(0, 0, 1).tokens
        if job.widest is not None:  # the batch of the forecast
            tokens = job.widest(size).tokens
        return self.decision.forecast.flops / tokens if self.decision.forecast.flops else None

    def _preset(self) -> dict[str, str]:
        groups = _preset_keys(self.request).items()
        sentence = "; ".join(f"{origin}: {', '.join(keys)}" for origin, keys in groups)
        return {"preset": sentence} if sentence else {}

    def facts(self, folder: Path | None = None) -> dict[str, str]:
        """Return the lines that a user sees before step 1, by name.

        With `folder`, the existing folder of the checkpoints, they include the cost of saving.
        """
        plan, feed = self.plan, self.feed
        tokens = ""
        # A classifier's sample has one target, its label; rows have as many targets as tokens.
        if self.job.learns_tokens and self.job.widest is None:
            tokens = f" ({feed.batch_size * self.job.train.batch(0, 0, 1).targets:,} tokens)"
        batch = (
            f"{plan.micro_batch} micro x {plan.accumulation} accumulation x "
            f"{many(plan.ranks, 'rank')} = "
            f"{feed.batch_size} samples{tokens} per "
            f"optimizer step, {feed.steps_per_epoch:,} steps per epoch"
        )
        return {
            **self._preset(),
            **self.job.facts,
            "device": f"{self.hardware.name} ({self.hardware.device})",
            "model": (
                f"{self.decision.forecast.parameters:,} parameters: "
                + ", ".join(f"{k} {v}" for k, v in _model(self.request.config).items())
            ),
            "batch": batch,
            "length": f"{self.steps:,} steps = {self.steps / feed.steps_per_epoch:.2f} epochs",
            "memory": self.decision.memory,
            **({} if (gpus := self._gpus()) is None else {"gpus": gpus}),
            "saving": preflight.saving(self.request.config.training) + self._cost(folder),
        }

    def _gpus(self) -> str | None:
        batch_size = self.feed.batch_size
        return on_more_gpus(self.decision.forecast, self.plan, self.hardware, batch_size)

    def _cost(self, folder: Path | None) -> str:
        training, size = self.request.config.training, self.checkpoint_bytes
        if folder is None or (
            (seconds := preflight.save_seconds(folder, size, kept=training.keep)) is None
        ):
            return ""
        return f"; {preflight.save_cost(training, self.steps, size=size, seconds=seconds)}"


def _preset_keys(request: RunRequest) -> dict[str, list[str]]:
    """Return {origin: [`key=value`, ...]} for presets, experiments and `auto`."""
    flat, keys = flatten(request.config), dict[str, list[str]]()
    for key, origin in request.origins.items():
        if origin.startswith("auto (") or "gave way" in origin:
            keys.setdefault(origin, []).append(f"{key}={flat[key]}")
        elif origin.startswith(("preset ", "experiment ")):
            keys.setdefault(origin.partition(":")[0], []).append(f"{key}={flat[key]}")
    return keys


def _model(config: Any) -> dict[str, Any]:
    prefix = "model."
    flat = flatten(config)
    return {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}


def assemble(
    request: RunRequest,
    notify: Notify,
    poll: Callable[[], None],
    *,
    plan: Plan | None = None,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> PreparedRun:
    """Assemble the run of a request; `plan` is the kept plan of a resumed run.

    All `ranks` must call this, and all use the plan of rank 0. Raises DataError, PlanError,
    ConfigError, DeviceError or LostRankError.
    """
    config, hardware = request.config, _machine(notify, ranks)
    _cap_memory(request, hardware, notify)
    for answer in request.answers:
        notify(Note(text=answer.text))
    for why in request.recipe.idle(config, request.origins).values():
        notify(Note(text=why))
    if config.init_from and plan is None:
        read_weights(Path(config.init_from))  # report an unreadable file before a folder
    data = prepare_data(request, notify, poll, ranks)
    for note in data.notes:
        notify(Note(text=note))
    job = request.recipe.load().build(config, data)
    training = config.training
    feed = AccumulationWindows(
        samples=job.train,
        batch_size=training.batch_size,
        drop_last=config.data.drop_last,
        cut=job.cut,
        rank=ranks.rank,
        ranks=ranks.world,
    )
    preflight.check_feed(feed)
    steps = _total_steps(training.max_steps, training.epochs, feed)
    decision = decide(
        request,
        job,
        feed,
        hardware,
        steps=steps,
        ranks=ranks,
        notify=notify,
        kept=plan,
        unpacked=_unpacked(request, data),
    )
    return PreparedRun(
        request=request,
        hardware=_with_peak(hardware, decision.plan) if request.measure_peak else hardware,
        data=data,
        job=job,
        feed=feed,
        steps=steps,
        decision=decision,
        ranks=ranks,
    )


def prepare_data(
    request: RunRequest,
    notify: Notify,
    poll: Callable[[], None] | None,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> PreparedData:
    """Return the data of a request; rank 0 prepares them, and the others read the cache.

    Ranks take turns, because the cache is locked and machines may share one.
    """
    if ranks.world == 1:
        return _prepare(request, notify, poll)
    data: PreparedData | None = None
    for turn in range(ranks.world):
        with ranks.together():
            if ranks.rank == turn:
                data = _prepare(request, notify, poll)
    assert data is not None
    return data


def _unpacked(request: RunRequest, data: PreparedData) -> Callable[[], tuple[Any, Job]] | None:
    """Return a function that builds the job without 4-bit weights; None if it has none."""
    adapter: Any = getattr(request.config, "adapter", None)
    if getattr(adapter, "quantization", "none") == "none":
        return None
    config = replace(request.config, adapter=replace(adapter, quantization="none"))
    return lambda: (config, request.recipe.load().build(config, data))


def _prepare(request: RunRequest, notify: Notify, poll: Callable[[], None] | None) -> PreparedData:
    """Return the data of a request, from the cache if possible. Raises DataError."""
    data: PreparedData = request.recipe.load().prepare_data(
        request.config,
        cache=ENV.cache / "tokens",
        progress=lambda what, share: notify(Working(what=what, share=share)),
        poll=poll,
    )
    return data


def _machine(notify: Notify, ranks: ProcessGroup) -> Hardware:
    if ranks.world > 1:
        return _shared(detect(f"cuda:{ENV.local_rank}" if torch.cuda.is_available() else "cpu"))
    hardware = detect()
    if hardware.device != "mps":
        return hardware
    notify(Note(text="Apple's MPS is detected but untested with hotloop train: the CPU is used"))
    return detect("cpu")


def _shared(hardware: Hardware) -> Hardware:
    """Return the hardware share (cores, host memory) of one of several processes on a machine."""
    several, cores, memory = ENV.local_world, hardware.cores, hardware.memory_bytes
    if hardware.device == "cpu" and memory is not None:
        memory //= several
    return replace(hardware, cores=None if cores is None else cores / several, memory_bytes=memory)


def _cap_memory(request: RunRequest, hardware: Hardware, notify: Notify) -> None:
    fraction = request.config.training.memory_fraction
    why = cap_memory(fraction, hardware.device) if fraction else None
    if why is None:
        return
    if request.origins["training.memory_fraction"] in apply_plan.TYPED:
        raise ConfigError(f"{why}; leave it out")
    notify(Note(text=why))


def _total_steps(max_steps: int | None, epochs: float | None, feed: AccumulationWindows) -> int:
    # 1.1 epochs of 10 steps are 11, though 1.1 * 10 is above it
    exact = None if epochs is None else round(epochs * feed.steps_per_epoch, 6)
    by_epochs = None if exact is None else max(1, math.ceil(exact))
    limits = [limit for limit in (max_steps, by_epochs) if limit is not None]
    if not limits:
        raise ConfigError("set training.epochs or training.max_steps: the run needs an end")
    return min(limits)


def _with_peak(hardware: Hardware, plan: Plan) -> Hardware:
    """Return the hardware with its measured matmul rate (FLOP/s), at the plan's thread count."""
    from hotloop.machine.matmul_rate import measure_gemm

    precision, before = precision_of(plan, hardware), torch.get_num_threads()
    torch.set_num_threads(int((plan.choice("threads") or {}).get("count", 0)) or before)
    try:
        peak = measure_gemm(hardware.device, precision)
    finally:
        torch.set_num_threads(before)
    return replace(hardware, measured={**hardware.measured, precision: peak})


def run_record(prepared: PreparedRun) -> dict[str, object]:
    """Return the contents of run.json at the start of the run, as JSON values."""
    request = prepared.request
    return {
        "recipe": request.recipe.name,
        "status": "running",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "config": flatten(request.config),
        "origins": dict(request.origins),
        "steps": prepared.steps,
        "training_samples": len(prepared.job.train),
        "validation_samples": _judged_on(prepared),
        "loss_unit": prepared.job.loss_unit,
        "guesses": prepared.job.guesses,
        "judged_by": None if prepared.job.judge is None else prepared.job.judge.score,
        "precision": precision_of(prepared.plan, prepared.hardware),
        "flops_per_token": prepared.flops_per_token,
        "facts": prepared.facts(),
        "code": code_version(),
        "manifest": [answer.text for answer in request.answers],
        "passed_over": dict(request.passed_over),
        "choices": [
            {"what": str(c.use), "origin": c.origin, "reason": c.reason}
            for c in prepared.decision.choices
        ],
        "data": dict(prepared.data.about),
        **({"declared": digests(request.code[CODE])} if request.code else {}),
        "hardware": prepared.hardware.to_json(),
    }


def _judged_on(prepared: PreparedRun) -> int:
    """Return the number of samples that one validation reads."""
    samples, batches = len(prepared.job.valid), prepared.request.config.training.eval_batches
    return samples if batches is None else min(samples, batches * prepared.plan.micro_batch)


def default_folder(recipe: str) -> Path:
    """Return the run folder that is used without --out."""
    return Path("runs") / f"{recipe}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
