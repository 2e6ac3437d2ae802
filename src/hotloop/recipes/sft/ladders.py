"""The ladders of chat-sft and expert-sft: from a plain loop on padded rows to hotloop's choice."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from hotloop.recipes.building.ladder import Ladder, PlainLoopKind, Rung
from hotloop.recipes.building.text_rungs import (
    FLAT,
    LONGEST,
    PADDED,
    Settings,
    always,
    before,
    faster_rungs,
    plain_loop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.plan import Plan
    from hotloop.recipes.building.ladder import Spot

__all__ = ["CHAT_SFT", "EXPERT_SFT"]

_PLAIN: Final[Settings] = {
    **PADDED,
    "data.packing": False,
    "data.group_by_length": False,
    "model.cross_entropy": "whole",
}
_EACH_ALONE: Final[Settings] = {**_PLAIN, **FLAT}
_PACKED: Final[Settings] = {**_PLAIN, "data.packing": True}
_WHOLE_WEIGHTS: Final[Settings] = {"adapter.quantization": "none"}


def _quantised(config: Any) -> Mapping[str, Any]:
    """Return the setting that packs frozen weights to 4 bits, or keeps them where it cannot."""
    can = config.adapter.method != "none" and importlib.util.find_spec("bitsandbytes") is not None
    return {"adapter.quantization": "nf4" if can else "none"}


def _unpacked(below: Plan, spot: Spot) -> Plan | str:
    if spot.config.adapter.method == "none":
        return "all weights are trained: none were in 4 bits"
    if importlib.util.find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed: the weights were not in 4 bits before"
    return below


def _with(settings: Settings, more: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any], Any]:
    return lambda config: {**settings, **more(config)}


def _language_model(settings: Callable[[Any], Any]) -> tuple[Rung, ...]:
    limit = PlainLoopKind(pads="to the limit", logits="all")
    longest = PlainLoopKind(pads="to the longest", logits="all")
    return (
        plain_loop("before", "plain loop", limit, change=before, settings=settings),
        plain_loop("longest", "+ padded to the longest", longest, settings=settings),
        plain_loop("learned", "+ logits where needed", LONGEST, settings=settings),
        Rung(id="engine", name="hotloop's loop and feed", settings=settings),
    )


CHAT_SFT = Ladder(
    recipe="chat-sft",
    judged="own",
    rungs=(
        *_language_model(always(_PLAIN)),
        Rung(id="flat", name="+ no padding", settings=always(_EACH_ALONE)),
        *faster_rungs(always(_EACH_ALONE)),
    ),
)
EXPERT_SFT = Ladder(
    recipe="expert-sft",
    judged="own",
    rungs=(
        *_language_model(_with(_PLAIN, _quantised)),
        Rung(id="packed", name="+ packed rows", settings=_with(_PACKED, _quantised)),
        Rung(
            id="lora",
            name="+ weights not in 4 bits",
            change=_unpacked,
            settings=always({**_PACKED, **_WHOLE_WEIGHTS}),
        ),
        *faster_rungs(always({**_PACKED, **_WHOLE_WEIGHTS})),
    ),
)
