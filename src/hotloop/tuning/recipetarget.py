"""A recipe as something to tune: how a trial starts, and what is worth trying."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import HotloopError
from hotloop.techniques.base import Host
from hotloop.tuning.live import Live
from hotloop.tuning.moves import Move, both, ordered, removed, resized, too_short
from hotloop.tuning.race import Entry
from hotloop.tuning.recipetrial import assembled, command
from hotloop.tuning.room import most_bytes, why_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.assemble import Assembly
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Value
    from hotloop.core.trial import Trial

__all__ = ["Recipe", "moves"]

_SIZES: Final = (2.0, 0.5, 4.0, 0.25)
# What a trial does not do: it saves nothing.
_NOT_IN_A_TRIAL: Final = {"async-checkpoint": "it saves in the background: a trial saves nothing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe with its settings. The baseline is what `hotloop train` would do with them."""

    request: Mapping[str, Any]  # recipetrial.record_of
    parts: Assembly
    aside: Path | None = None  # a folder in which a save is timed, once

    @property
    def baseline(self) -> Plan:
        """The plan that hotloop derives, or that was given."""
        return self.parts.plan

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.parts.hardware

    @property
    def total(self) -> int | None:
        """Optimizer steps of a whole run."""
        return self.parts.steps

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""

        return Entry(plan=plan, start=lambda: self._start(plan), epochs=epochs, needs=tuple(needs))

    def alone(self) -> Entry:
        """Return how to start the baseline's first trial, in which a validation and a save are."""
        plan = self.baseline
        return Entry(plan=plan, start=lambda: self._start(plan, self.aside))

    def _start(self, plan: Plan, aside: Path | None = None) -> Live:
        return Live(
            lambda channel: command(channel, plan, self.request, aside=aside),
            memory=most_bytes(self.hardware),
        )

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""
        return why_apart(trial, self.hardware)

    def too_much(self, plan: Plan) -> str | None:
        """Return why a plan is not tried: its memory forecast, or that it cannot be built."""
        try:
            parts = assembled({"request": self.request, "plan": plan.to_json()})
        except HotloopError as error:
            return str(error)
        return None if parts.too_much is None else f"forecast: {parts.memory}"


def moves(
    recipe: Recipe, *, allow_training: bool = False, seconds_per_step: float | None = None
) -> list[Move]:
    """Return what to try on a recipe: shapes first, then techniques in, other choices, and out."""
    plan, hardware = recipe.baseline, recipe.hardware

    def why_not(technique: Any) -> str | None:
        if technique.id == "compile" and seconds_per_step is not None:
            return too_short(seconds_per_step, recipe.parts.steps)
        return _NOT_IN_A_TRIAL.get(technique.id)

    found = ordered(
        hardware,
        Host.ENGINE,
        choices=_choices(hardware, plan),
        allow_training=allow_training,
        why_not=why_not,
    )
    has = {use.id for use in plan.techniques}
    found = [move for move in found if move.change(plan) is not None or not has & {*move.ids}]
    return [*_sizes(recipe), *found, *(removed(use.id) for use in plan.techniques)]


def _sizes(recipe: Recipe) -> Iterator[Move]:
    """Yield other micro batches at the same optimizer step; larger ones also recomputing."""
    for factor in _SIZES:
        move = resized(factor)
        plan = move.change(recipe.baseline)
        if plan is None:
            continue
        why = recipe.too_much(plan)
        yield replace(move, why_not=why)
        if why is not None and factor > 1:
            recompute = Move(
                name="activation-checkpointing(mode=selective)",
                change=lambda plan: plan.plus("activation-checkpointing", mode="selective"),
                ids=("activation-checkpointing",),
            )
            pair = both(recompute, move)
            less = pair.change(recipe.baseline)
            yield replace(pair, why_not=None if less is None else recipe.too_much(less))


def _choices(hardware: Hardware, plan: Plan) -> Mapping[str, Sequence[Mapping[str, Value]]]:
    cores = max(1, int(hardware.cores or 1))
    on_card = hardware.device == "cuda"
    backends = ("auto", "naive", *(("flash", "efficient", "cudnn") if on_card else ()))
    recomputes = plan.choice("activation-checkpointing") is not None
    return {
        "threads": [{"count": count} for count in sorted({1, cores, max(1, cores // 2)})],
        "loader-workers": [{"count": count} for count in sorted({1, max(1, cores // 2)})],
        "sdpa": [{"backend": backend} for backend in backends],
        "activation-checkpointing": [{"mode": "off"}] if recomputes else [],
        "compile": [{}, *([{"mode": "max-autotune"}] if on_card else [])],
    }
