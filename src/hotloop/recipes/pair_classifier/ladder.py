"""The ladder of pair-classifier: from padded rows in a plain loop to hotloop's own choice."""

from hotloop.recipes.building.ladder import Ladder, Rung
from hotloop.recipes.building.text_rungs import (
    FLAT,
    LIMIT,
    LONGEST,
    PADDED,
    always,
    faster_rungs,
    plain_loops,
    unchanged,
)

__all__ = ["LADDER"]

LADDER = Ladder(
    recipe="pair-classifier",
    judged="own",
    rungs=(
        *plain_loops(
            always(PADDED),
            ("before", "plain loop", LIMIT),
            ("longest", "+ padded to the longest", LONGEST),
        ),
        Rung(
            id="grouped",
            name="hotloop's loop, like lengths",
            change=unchanged,
            settings=always(PADDED),
        ),
        Rung(id="flat", name="+ no padding", change=unchanged, settings=always(FLAT)),
        *faster_rungs(always(FLAT)),
    ),
)
