"""The rungs that ladders of recipes on rows of text share: plain loops, and techniques on top.

What the projects behind them ran is known by its kind: rows padded to the longest that is allowed,
in a random order; of a language model the logits of every position; of an expert frozen weights in
4 bits and one text a row. All rungs make steps of as many rows; packed rows hold several texts, so
times before are of steps with as many tokens. Rows are tokenised before on every rung.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hotloop.core.plan import Plan
from hotloop.recipes.building.ladder import PlainLoopKind, Rung, either, lean, using

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.recipes.building.ladder import Spot

__all__ = [
    "FLAT",
    "LIMIT",
    "LONGEST",
    "PADDED",
    "Settings",
    "always",
    "before",
    "faster_rungs",
    "plain_loops",
    "unchanged",
]

Settings = dict[str, Any]

PADDED: Final[Settings] = {"data.layout": "padded"}
FLAT: Final[Settings] = {"data.layout": "flat"}
LIMIT: Final = PlainLoopKind(pads="to the limit")
LONGEST: Final = PlainLoopKind(pads="to the longest")


def before(below: Plan, spot: Spot) -> Plan:
    """Return a plan of no technique, with the batch of hotloop's own choice."""
    del below
    return Plan(micro_batch=spot.own.micro_batch, accumulation=spot.own.accumulation)


def unchanged(below: Plan, spot: Spot) -> Plan:
    """Return the plan of the rung below."""
    del spot
    return below


def always(settings: Settings) -> Callable[[Any], Settings]:
    """Return these settings for every configuration."""
    return lambda config: settings


def faster_rungs(settings: Callable[[Any], Any]) -> tuple[Rung, ...]:
    """Return the rungs that every recipe has on top: techniques, and hotloop's own choice."""
    return (
        Rung(
            id="products",
            name="+ faster float32 products",
            change=either(using("tf32"), using("matmul-onednn")),
            settings=settings,
        ),
        Rung(
            id="low",
            name="+ 16 bit",
            change=either(using("autocast-bf16"), using("autocast-fp16")),
            settings=settings,
        ),
        Rung(id="fused", name="+ fused AdamW", change=using("fused-adamw"), settings=settings),
        Rung(id="lean", name="+ gc freeze, late reads", change=lean, settings=settings),
        Rung(
            id="own",
            name="hotloop's own choice",
            change=lambda below, spot: spot.own,
            is_top=True,
        ),
    )


def plain_loops(
    settings: Callable[[Any], Any], *loops: tuple[str, str, PlainLoopKind]
) -> tuple[Rung, ...]:
    """Return the plain loops; the first is the one before."""
    return tuple(
        Rung(
            id=id,
            name=name,
            change=unchanged if at else before,
            program="plain loop",
            loop=loop,
            settings=settings,
        )
        for at, (id, name, loop) in enumerate(loops)
    )
