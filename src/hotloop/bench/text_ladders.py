"""The ladders of recipes on rows of text: from padded rows in a plain loop to hotloop's own choice.

What the projects behind them ran is known by its kind: rows padded to the longest that is allowed,
in a random order; of a language model the logits of every position; of an expert frozen weights in
4 bits and one text a row. All rungs make steps of as many rows; packed rows hold several texts, so
times before are of steps with as many tokens. Rows are tokenised before on every rung.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from hotloop.bench.ladder import Ladder, PlainLoopKind, Rung, either, using
from hotloop.core.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.bench.ladder import Spot

__all__ = ["CHAT_SFT", "EXPERT_SFT", "PAIR_CLASSIFIER", "TASK_ROUTER"]

Settings = dict[str, Any]

_PADDED: Final[Settings] = {"data.layout": "padded"}
_FLAT: Final[Settings] = {"data.layout": "flat"}
_PLAIN: Final[Settings] = {
    **_PADDED,
    "data.packing": False,
    "data.group_by_length": False,
    "model.cross_entropy": "whole",
}
_GROUPED: Final[Settings] = {**_PLAIN, "data.group_by_length": True}
_EACH_ALONE: Final[Settings] = {**_GROUPED, **_FLAT}
_PACKED: Final[Settings] = {**_PLAIN, "data.packing": True}


def _before(below: Plan, spot: Spot) -> Plan:
    del below
    return Plan(micro_batch=spot.own.micro_batch, accumulation=spot.own.accumulation)


def _same(below: Plan, spot: Spot) -> Plan:
    del spot
    return below


def _lean(below: Plan, spot: Spot) -> Plan:
    plan = below.plus("gc-freeze")
    return plan if spot.hardware.device == "cpu" else plan.plus("lagged-loss-read")


def _always(settings: Settings) -> Callable[[Any], Settings]:
    return lambda config: settings


def _quantised(config: Any) -> Mapping[str, Any]:
    """Return what packs frozen weights to 4 bits, where there are any and it can be done."""
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


def _faster(settings: Callable[[Any], Any]) -> tuple[Rung, ...]:
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
        Rung(id="lean", name="+ gc freeze, late reads", change=_lean, settings=settings),
        Rung(
            id="own",
            name="hotloop's own choice",
            change=lambda below, spot: spot.own,
            is_top=True,
        ),
    )


def _loops(
    settings: Callable[[Any], Any], *loops: tuple[str, str, PlainLoopKind]
) -> tuple[Rung, ...]:
    """Return the plain loops; the first is the one before."""
    return tuple(
        Rung(
            id=id,
            name=name,
            change=_same if at else _before,
            program="plain loop",
            loop=loop,
            settings=settings,
        )
        for at, (id, name, loop) in enumerate(loops)
    )


def _language_model(settings: Callable[[Any], Any]) -> tuple[Rung, ...]:
    return _loops(
        settings,
        ("before", "plain loop", PlainLoopKind(pads="to the limit", logits="all")),
        ("longest", "+ padded to the longest", PlainLoopKind(pads="to the longest", logits="all")),
        ("learned", "+ logits where needed", PlainLoopKind(pads="to the longest")),
    )


_LIMIT, _LONGEST = PlainLoopKind(pads="to the limit"), PlainLoopKind(pads="to the longest")
PAIR_CLASSIFIER = Ladder(
    recipe="pair-classifier",
    judged="own",
    rungs=(
        *_loops(
            _always(_PADDED),
            ("before", "plain loop", _LIMIT),
            ("longest", "+ padded to the longest", _LONGEST),
        ),
        Rung(
            id="grouped",
            name="hotloop's loop, like lengths",
            change=_same,
            settings=_always(_PADDED),
        ),
        Rung(id="flat", name="+ no padding", change=_same, settings=_always(_FLAT)),
        *_faster(_always(_FLAT)),
    ),
)
CHAT_SFT = Ladder(
    recipe="chat-sft",
    judged="own",
    rungs=(
        *_language_model(_always(_PLAIN)),
        Rung(id="engine", name="hotloop's loop and feed", change=_same, settings=_always(_PLAIN)),
        Rung(id="grouped", name="+ like lengths", change=_same, settings=_always(_GROUPED)),
        Rung(id="flat", name="+ no padding", change=_same, settings=_always(_EACH_ALONE)),
        *_faster(_always(_EACH_ALONE)),
    ),
)
_WHOLE_WEIGHTS: Final[Settings] = {"adapter.quantization": "none"}
EXPERT_SFT = Ladder(
    recipe="expert-sft",
    judged="own",
    rungs=(
        *_language_model(_with(_PLAIN, _quantised)),
        Rung(
            id="engine",
            name="hotloop's loop and feed",
            change=_same,
            settings=_with(_PLAIN, _quantised),
        ),
        Rung(id="packed", name="+ packed rows", change=_same, settings=_with(_PACKED, _quantised)),
        Rung(
            id="lora",
            name="+ weights not in 4 bits",
            change=_unpacked,
            settings=_always({**_PACKED, **_WHOLE_WEIGHTS}),
        ),
        *_faster(_always({**_PACKED, **_WHOLE_WEIGHTS})),
    ),
)


def _with_adapters(below: Plan, spot: Spot) -> Plan | str:
    return "phase 2 trains the router alone" if spot.config.phase == "2" else below


def _with_features(below: Plan, spot: Spot) -> Plan | str:
    return "phase 1 uses no features" if spot.config.phase == "1" else below


def _routed() -> tuple[Rung, ...]:
    """Return the plain loops of a task router: what its project did, and each change by itself."""
    one = PlainLoopKind(pads="to the limit", rows="one at a time", frozen="again")
    kinds: tuple[tuple[str, str, Callable[[Plan, Spot], Plan | str], PlainLoopKind], ...] = (
        ("before", "plain loop", _before, one),
        (
            "together",
            "+ all adapters in one pass",
            _with_adapters,
            PlainLoopKind(pads="to the limit", frozen="again"),
        ),
        (
            "longest",
            "+ padded to the longest",
            _same,
            PlainLoopKind(pads="to the longest", frozen="again"),
        ),
        ("kept", "+ features kept", _with_features, PlainLoopKind(pads="to the longest")),
    )
    return tuple(
        Rung(id=id, name=name, change=change, program="plain loop", loop=loop)
        for id, name, change, loop in kinds
    )


TASK_ROUTER = Ladder(
    recipe="task-router",
    judged="own",
    rungs=(
        *_routed(),
        Rung(id="engine", name="hotloop's loop, like lengths", change=_same),
        *_faster(_always({})),
    ),
)
