"""The ladder of pair-classifier: from padded rows in a plain loop to hotloop's own choice."""

from hotloop.recipes.building.ladder import Ladder, Rung
from hotloop.recipes.building.text_rungs import (
    FLAT,
    LIMIT,
    LONGEST,
    PADDED,
    always,
    before,
    faster_rungs,
    plain_loop,
)

__all__ = ["LADDER"]

LADDER = Ladder(
    recipe="pair-classifier",
    judged="own",
    rungs=(
        plain_loop("before", "plain loop", LIMIT, change=before, settings=always(PADDED)),
        plain_loop("longest", "+ padded to the longest", LONGEST, settings=always(PADDED)),
        Rung(id="grouped", name="hotloop's loop, like lengths", settings=always(PADDED)),
        Rung(id="flat", name="+ no padding", settings=always(FLAT)),
        *faster_rungs(always(FLAT)),
    ),
)
