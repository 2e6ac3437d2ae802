"""What a ladder is: the loop a project had before, and what is changed on each rung above it."""

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
    "using",
]

Program = Literal["engine", "plain loop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLoopKind:
    """What a plain loop over rows of tokens does; of other data there is one kind."""

    pads: Literal["to the limit", "to the longest"]  # data.max_length, or the batch's longest row
    logits: Literal["all", "learned"] = "learned"  # of a language model: where labels carry loss
    # Of adapters that are routed: rows of all tasks in one pass, or a loop over them.
    rows: Literal["together", "one at a time"] = "together"
    frozen: Literal["kept", "again"] = "kept"  # what a frozen model gives: or computed each step


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What somebody says a rung is worth. It stands beside what is measured and decides nothing."""

    text: str
    of: Literal["before", "below"]  # the rung that it is compared with
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What a plan depends on."""

    config: Any  # of the recipe
    hardware: Hardware
    own: Plan  # hotloop's own choice here


def as_asked(config: Any) -> Mapping[str, Any]:
    """Return no settings besides those asked for."""
    del config
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder."""

    id: str
    name: str
    change: Callable[[Plan, Spot], Plan | str]  # plan of the rung below -> its own, or why not
    program: Program = "engine"
    loop: PlainLoopKind | None = None  # of a plain loop over rows of tokens
    # From the settings asked for, those that are others on this rung: key -> value.
    settings: Callable[[Any], Mapping[str, Any]] = as_asked
    claims: Sequence[Claim] = ()
    is_top: bool = False  # a whole plan: nothing is put on top of it

    def needs(self, below: Plan, plan: Plan) -> tuple[str, ...]:
        """Return the techniques that are new in its plan: without their effect nothing is timed.

        Of a whole plan nothing is needed: what has no effect in it is a row of its effects.
        """
        if self.is_top:
            return ()
        return tuple(use.id for use in plan.techniques if use not in below.techniques)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The rungs of a recipe, the lowest first: all others are measured beside that one."""

    recipe: str
    rungs: Sequence[Rung]
    judged: str  # the id of the rung that targets are about

    @property
    def before(self) -> Rung:
        """Return the lowest rung."""
        return self.rungs[0]


def using(id: str, /, **choice: Value) -> Callable[[Plan, Spot], Plan | str]:
    """Return the change that adds a technique, in the place of those that it excludes."""

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
    """Return the first of several changes that can be made; else why none can."""

    def change(plan: Plan, spot: Spot) -> Plan | str:
        whys = []
        for each in changes:
            made = each(plan, spot)
            if not isinstance(made, str):
                return made
            whys.append(made)
        return "; ".join(whys)

    return change


def lean(below: Plan, spot: Spot) -> Plan:
    """Return the plan with what takes the host's own work out of a step."""
    plan = below.plus("gc-freeze")
    return plan if spot.hardware.device == "cpu" else plan.plus("lagged-loss-read")
