"""The shared rungs of the ladders of text recipes: plain loops, and techniques on top.

Only the kind of the original projects' loops is known: rows padded to the longest allowed length in
random order, logits at every position for a language model, and for an expert frozen weights in 4
bits with one text per row. The steps of all rungs have the same number of rows; packed rows hold
several texts, so the times of the first rungs are for steps with as many tokens. The rows are
tokenised before every rung.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hotloop.core.plan import Plan
from hotloop.recipes.building.ladder import (
    PlainLoopKind,
    Rung,
    as_asked,
    either,
    lean,
    unchanged,
    using,
)

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
    "plain_loop",
]

Settings = dict[str, Any]

PADDED: Final[Settings] = {"data.layout": "padded"}
FLAT: Final[Settings] = {"data.layout": "flat"}
LIMIT: Final = PlainLoopKind(pads="to the limit")
LONGEST: Final = PlainLoopKind(pads="to the longest")


def before(below: Plan, spot: Spot) -> Plan:
    """Return a plan without techniques, with the batch size of hotloop's own choice."""
    del below
    return Plan(micro_batch=spot.own.micro_batch, accumulation=spot.own.accumulation)


def always(settings: Settings) -> Callable[[Any], Settings]:
    """Return a function that gives the same settings for every configuration."""
    return lambda config: settings


def faster_rungs(settings: Callable[[Any], Any]) -> tuple[Rung, ...]:
    """Return the top rungs, which all text recipes share: techniques, and hotloop's own choice."""
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
        Rung(id="graphs", name="+ CUDA graphs", change=using("cuda-graphs"), settings=settings),
        Rung(
            id="own",
            name="hotloop's own choice",
            change=lambda below, spot: spot.own,
            is_top=True,
        ),
    )


def plain_loop(
    id: str,
    name: str,
    loop: PlainLoopKind,
    *,
    change: Callable[[Plan, Spot], Plan | str] = unchanged,
    settings: Callable[[Any], Any] = as_asked,
) -> Rung:
    """Return the rung of a plain loop; the first one has the change `before`."""
    return Rung(id=id, name=name, change=change, program="plain loop", loop=loop, settings=settings)
