"""Defines a ladder: the loop that a project had before, and one change on each rung above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hotloop import techniques

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Value

__all__ = [
    "Claim",
    "Ladder",
    "PlainLoopKind",
    "Program",
    "Rung",
    "Spot",
    "as_asked",
    "either",
    "lean",
    "unchanged",
    "using",
]

Program = Literal["engine", "plain loop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLoopKind:
    """The kind of a plain loop over rows of tokens; other data have one kind only."""

    pads: Literal["to the limit", "to the longest"]  # data.max_length, or the batch's longest row
    logits: Literal["all", "learned"] = "learned"  # of a language model; learned: with loss only
    # For routed adapters: rows of all tasks in one pass, or one row at a time.
    rows: Literal["together", "one at a time"] = "together"
    frozen: Literal["kept", "again"] = "kept"  # a frozen model's features: cached, or each step


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published speed-up of a rung, printed beside the measurement; it decides nothing."""

    text: str
    of: Literal["before", "below"]  # the rung that it is compared with
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The facts that the plan of a rung depends on."""

    config: Any  # of the recipe
    hardware: Hardware
    own: Plan  # hotloop's own choice here


def unchanged(below: Plan, spot: Spot) -> Plan:
    """Return the plan of the rung below."""
    del spot
    return below


def as_asked(config: Any) -> Mapping[str, Any]:
    """Return no settings, so that the rung runs with the user's own."""
    del config
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder."""

    id: str
    name: str
    # Plan of the rung below -> own plan, or why not.
    change: Callable[[Plan, Spot], Plan | str] = unchanged
    program: Program = "engine"
    loop: PlainLoopKind | None = None  # of a plain loop over rows of tokens
    # Configuration -> the settings that this rung changes, key -> value.
    settings: Callable[[Any], Mapping[str, Any]] = as_asked
    claims: Sequence[Claim] = ()
    is_top: bool = False  # a complete plan: no rung builds on it

    def needs(self, below: Plan, plan: Plan) -> tuple[str, ...]:
        """Return the new techniques of the plan; the rung is timed only if all have an effect.

        A complete plan needs none: a technique without effect is listed among its effects.
        """
        if self.is_top:
            return ()
        return tuple(use.id for use in plan.techniques if use not in below.techniques)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The rungs of a recipe, the lowest first; all others are compared with the lowest."""

    recipe: str
    rungs: Sequence[Rung]
    judged: str  # the id of the rung that targets are about

    @property
    def before(self) -> Rung:
        """Return the lowest rung."""
        return self.rungs[0]


def using(id: str, /, **choice: Value) -> Callable[[Plan, Spot], Plan | str]:
    """Return the change that adds a technique and removes the techniques that it excludes."""

    def change(plan: Plan, spot: Spot) -> Plan | str:
        technique = techniques.get(id)
        for clash in technique.excludes:
            plan = plan.minus(clash)
        plan = plan.plus(id, **{**technique.tried, **choice})
        return technique.blocked(spot.hardware, plan) or plan

    return change


def either(
    *changes: Callable[[Plan, Spot], Plan | str],
) -> Callable[[Plan, Spot], Plan | str]:
    """Return the change that tries several changes in order, and joins the reasons if all fail."""

    def change(plan: Plan, spot: Spot) -> Plan | str:
        reasons = []
        for candidate in changes:
            result = candidate(plan, spot)
            if not isinstance(result, str):
                return result
            reasons.append(result)
        return "; ".join(reasons)

    return change


def lean(below: Plan, spot: Spot) -> Plan:
    """Return the plan with the techniques that remove CPU work from a step."""
    plan = below.plus("gc-freeze")
    return plan if spot.hardware.device == "cpu" else plan.plus("lagged-loss-read")
