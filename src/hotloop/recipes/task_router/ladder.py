"""The ladder of task-router: from one row at a time in a plain loop to hotloop's own choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.recipes.building.ladder import Ladder, PlainLoopKind, Rung, as_asked
from hotloop.recipes.building.text_rungs import LONGEST, before, faster_rungs, plain_loop

if TYPE_CHECKING:
    from hotloop.core.plan import Plan
    from hotloop.recipes.building.ladder import Spot

__all__ = ["LADDER"]


def _with_adapters(below: Plan, spot: Spot) -> Plan | str:
    return "phase 2 trains the router alone" if spot.config.phase == "2" else below


def _with_features(below: Plan, spot: Spot) -> Plan | str:
    return "phase 1 uses no features" if spot.config.phase == "1" else below


LADDER = Ladder(
    recipe="task-router",
    judged="own",
    rungs=(
        plain_loop(
            "before",
            "plain loop",
            PlainLoopKind(pads="to the limit", rows="one at a time", frozen="again"),
            change=before,
        ),
        plain_loop(
            "together",
            "+ all adapters in one pass",
            PlainLoopKind(pads="to the limit", frozen="again"),
            change=_with_adapters,
        ),
        plain_loop(
            "longest",
            "+ padded to the longest",
            PlainLoopKind(pads="to the longest", frozen="again"),
        ),
        plain_loop("kept", "+ features kept", LONGEST, change=_with_features),
        Rung(id="engine", name="hotloop's loop, like lengths"),
        *faster_rungs(as_asked),
    ),
)
