"""Makes a recipe a tuning target: starts its trials and proposes moves."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hotloop import techniques
from hotloop.core.errors import HotloopError
from hotloop.core.sharding_ids import SHARING
from hotloop.core.units import many
from hotloop.jobs.forecast.memory_fit import Forecasts, fit_memory, shapes
from hotloop.techniques.base import HostKind, Numerics
from hotloop.techniques.script_gate import too_short
from hotloop.techniques.threads import counts
from hotloop.tuning.lane import Entry
from hotloop.tuning.memory_room import how_many, most_bytes, why_apart
from hotloop.tuning.moves import Move, both, ordered, removed, resized, shared, varied
from hotloop.tuning.recipe_trial import assembled, command
from hotloop.tuning.trial_process import TrialProcess, fork_server
from hotloop.tuning.trial_ranks import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Value
    from hotloop.core.trial import Trial
    from hotloop.jobs.job import PreparedRun
    from hotloop.process.fork_server import ForkServer

__all__ = ["RecipeTarget", "moves"]

_SIZES: Final = (2.0, 0.5, 4.0, 0.25)
_ROWS: Final = "fsdp2"  # no GPU holds all parameters
# Sharing techniques whose first gradients cannot be compared with those of one GPU.
_UNSEEN: Final = {"deepspeed": "its gradients are in pieces: time a run of it, --with deepspeed"}
# Further choices of the sharing technique that the plan has.
_FURTHER: Final = (varied("ddp", bucket_mib=100), varied("fsdp2", reshard="off"))
# Techniques without effect in a trial, and why.
_NOT_IN_A_TRIAL: Final = {"async-checkpoint": "it saves in the background: a trial saves nothing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeTarget:
    """A recipe with its settings. The baseline is the plan of `hotloop train` for them."""

    request: Mapping[str, Any]  # recipe_trial.record_of
    prepared: PreparedRun
    aside: Path | None = None  # a folder in which a save is timed, once
    server: ForkServer | None = None  # forks the trials

    @property
    def baseline(self) -> Plan:
        """The plan that hotloop derives, or the given one.

        If the forecast does not fit one GPU and there are several, FSDP over all of them is added.
        """
        plan = self.prepared.plan
        if self.prepared.decision.too_much is None or self.gpus == 1:
            return plan
        rows = shared(_ROWS, self.gpus, self.batch_size).change(plan)
        if rows is None or techniques.get(_ROWS).blocked(self.hardware, rows) is not None:
            return plan
        return rows

    @property
    def note(self) -> str | None:
        """A note on the baseline, or None if it is the plan of `hotloop train`."""
        if self.baseline == self.prepared.plan:
            return None
        why = f"one GPU: {self.prepared.decision.memory}"
        return f"{why}. So the baseline is {_ROWS} on {many(self.gpus, 'GPU')}"

    @property
    def batch_size(self) -> int:
        """Samples of an optimizer step over all ranks."""
        size: int = self.prepared.request.config.training.batch_size
        return size

    @property
    def gpus(self) -> int:
        """Devices that can make a step together."""
        return min(self.hardware.count, self.batch_size)

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.prepared.hardware

    @property
    def total(self) -> int | None:
        """Optimizer steps of a whole run."""
        return self.prepared.steps

    @contextmanager
    def forking(self) -> Iterator[RecipeTarget]:
        """Yield this target with a server that forks the trials of one rank."""
        with fork_server(environment(1)) as server:
            yield replace(self, server=server)

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""

        return Entry(plan=plan, start=lambda: self._start(plan), epochs=epochs, needs=tuple(needs))

    def still(self, plan: Plan) -> None:
        """None: a recipe sets its dropout itself."""

    def alone(self) -> Entry:
        """Return how to start the first trial, which also times a validation and a save."""
        plan = self.baseline
        return Entry(plan=plan, start=lambda: self._start(plan, self.aside))

    def _start(self, plan: Plan, aside: Path | None = None) -> TrialProcess:
        return TrialProcess(
            lambda channel: command(channel, plan, self.request, aside=aside),
            memory=most_bytes(self.hardware),
            environment=environment(plan.ranks),
            server=self.server,
        )

    def nudged(self, size: float, seed: int) -> None:
        """Return None: a recipe is compared with another order of its sums."""

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""
        return why_apart(trial, self.hardware)

    def lanes(self, trial: Trial) -> int:
        """Return how many trials fit into memory together; 2 if unknown."""
        return how_many(trial, self.hardware) or 2

    @property
    def reordered(self) -> Plan | None:
        """The baseline with another micro batch, if possible one that no move has; else None."""
        plan = self.baseline
        size = plan.micro_batch
        divisor = next((n for n in (*range(3, size + 1), 2) if size % n == 0), None)
        return resized(2 if size == 1 or divisor is None else 1 / divisor).change(plan)

    def too_much(self, plan: Plan) -> str | None:
        """Return why a plan is not tried, or None: a memory forecast or a build error."""
        if plan.ranks > 1:
            return self._too_much_each(plan)
        try:
            prepared = assembled({"request": self.request, "plan": plan.to_json()})
        except HotloopError as error:
            return str(error)
        decision = prepared.decision
        return None if decision.too_much is None else f"forecast: {decision.memory}"

    def _too_much_each(self, plan: Plan) -> str | None:
        """Return why a rank's share of a plan does not fit its GPU, or None."""
        config, job = self.prepared.request.config, self.prepared.job
        forecasts = Forecasts(job, self.hardware, shapes(config, job))
        fit = fit_memory(forecasts, plan, lambda _: None, may_halve=False)
        return None if fit.too_much is None else f"forecast: {fit.text}"


def moves(
    recipe: RecipeTarget,
    *,
    most: Numerics = Numerics.ROUNDING,
    seconds_per_step: float | None = None,
) -> list[Move]:
    """Return the moves of a recipe: to all GPUs, micro batches, techniques added, then removed."""
    plan, hardware = recipe.baseline, recipe.hardware

    def why_not(technique: Any) -> str | None:
        if technique.id == "compile" and seconds_per_step is not None:
            return too_short(seconds_per_step, recipe.prepared.steps)
        return _NOT_IN_A_TRIAL.get(technique.id)

    candidates = ordered(
        hardware,
        HostKind.ENGINE,
        choices=_choices(hardware, plan),
        most=most,
        why_not=why_not,
    )
    has = {use.id for use in plan.techniques}
    changing = [m for m in candidates if m.change(plan) is not None or not has & {*m.ids}]
    out = (removed(use.id) for use in plan.techniques if use.id not in SHARING)
    return [*_gpus(recipe), *_sizes(recipe), *changing, *out]


def _gpus(recipe: RecipeTarget) -> Iterator[Move]:
    """Yield the moves to all GPUs of this machine, one for each sharing technique."""
    hardware, plan, batch = recipe.hardware, recipe.baseline, recipe.batch_size
    if recipe.gpus == 1:
        here = "one GPU is here" if hardware.device == "cuda" else "no GPU is here"
        why = here if hardware.count == 1 else "a step has one sample"
        yield from (shared(id, max(2, hardware.count), batch, why_not=why) for id in SHARING)
        return
    for id in SHARING:
        move = shared(id, recipe.gpus, batch)
        changed = move.change(plan)
        if changed is not None:
            why_not = techniques.get(id).blocked(hardware, changed) or _UNSEEN.get(id)
            yield replace(move, why_not=why_not or recipe.too_much(changed))
    yield from _FURTHER


def _sizes(recipe: RecipeTarget) -> Iterator[Move]:
    """Yield other micro batches at the same optimizer step.

    A larger one that does not fit is also tried with activation checkpointing. With several GPUs,
    whether it fits is judged on the best plan so far, as a rank may need less than a single GPU.
    """

    def judged(move: Move, why: str | None) -> Move:
        def barred(plan: Plan) -> str | None:
            changed = move.change(plan)
            return None if changed is None else recipe.too_much(changed)

        return replace(move, why_not=why) if recipe.gpus == 1 else replace(move, barred=barred)

    for factor in _SIZES:
        move = resized(factor)
        plan = move.change(recipe.baseline)
        if plan is None:
            continue
        why = recipe.too_much(plan)
        yield judged(move, why)
        if why is not None and factor > 1:
            recompute = Move(
                name="activation-checkpointing(mode=selective)",
                change=lambda plan: plan.plus("activation-checkpointing", mode="selective"),
                ids=("activation-checkpointing",),
            )
            pair = both(recompute, move)
            less = pair.change(recipe.baseline)
            yield judged(pair, None if less is None else recipe.too_much(less))


def _choices(hardware: Hardware, plan: Plan) -> Mapping[str, Sequence[Mapping[str, Value]]]:
    half = max(1, int(hardware.cores or 1) // 2)
    on_gpu = hardware.device == "cuda"
    backends = ("auto", "naive", *(("flash", "efficient", "cudnn") if on_gpu else ()))
    recomputes = plan.choice("activation-checkpointing") is not None
    return {
        "threads": [{"count": count} for count in counts(hardware.cores)],
        "loader-workers": [{"count": count} for count in sorted({1, half})],
        "sdpa": [{"backend": backend} for backend in backends],
        "activation-checkpointing": [{"mode": "off"}] if recomputes else [],
        "compile": [{}, *([{"mode": "max-autotune"}] if on_gpu else [])],
    }
