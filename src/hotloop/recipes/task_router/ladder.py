"""The ladder of task-router: from one row at a time in a plain loop to hotloop's own choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.recipes.building.ladder import Ladder, PlainLoopKind, Rung
from hotloop.recipes.building.text_rungs import always, before, faster_rungs, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.plan import Plan
    from hotloop.recipes.building.ladder import Spot

__all__ = ["LADDER"]


def _with_adapters(below: Plan, spot: Spot) -> Plan | str:
    return "phase 2 trains the router alone" if spot.config.phase == "2" else below


def _with_features(below: Plan, spot: Spot) -> Plan | str:
    return "phase 1 uses no features" if spot.config.phase == "1" else below


def _plain_loops() -> tuple[Rung, ...]:
    """Return the plain loops: that of the project behind the recipe, then one change at a time."""
    row_by_row = PlainLoopKind(pads="to the limit", rows="one at a time", frozen="again")
    kinds: tuple[tuple[str, str, Callable[[Plan, Spot], Plan | str], PlainLoopKind], ...] = (
        ("before", "plain loop", before, row_by_row),
        (
            "together",
            "+ all adapters in one pass",
            _with_adapters,
            PlainLoopKind(pads="to the limit", frozen="again"),
        ),
        (
            "longest",
            "+ padded to the longest",
            unchanged,
            PlainLoopKind(pads="to the longest", frozen="again"),
        ),
        ("kept", "+ features kept", _with_features, PlainLoopKind(pads="to the longest")),
    )
    return tuple(
        Rung(id=id, name=name, change=change, program="plain loop", loop=loop)
        for id, name, change, loop in kinds
    )


LADDER = Ladder(
    recipe="task-router",
    judged="own",
    rungs=(
        *_plain_loops(),
        Rung(id="engine", name="hotloop's loop, like lengths", change=unchanged),
        *faster_rungs(always({})),
    ),
)
