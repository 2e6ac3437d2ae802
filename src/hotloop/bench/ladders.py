"""The ladders by the name of their recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.bench import char_lm_ladder, text_ladders
from hotloop.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from hotloop.bench.ladder import Ladder

__all__ = ["LADDERS", "find"]

LADDERS: dict[str, Ladder] = {
    ladder.recipe: ladder
    for ladder in (
        char_lm_ladder.LADDER,
        text_ladders.PAIR_CLASSIFIER,
        text_ladders.CHAT_SFT,
        text_ladders.EXPERT_SFT,
        text_ladders.TASK_ROUTER,
    )
}


def find(name: str) -> Ladder:
    """Return the ladder of a recipe; UsageError lists the ones there are."""
    if name not in LADDERS:
        near = did_you_mean(name, LADDERS)
        raise UsageError(f"no ladder is called {name!r}{near} (there are: {', '.join(LADDERS)})")
    return LADDERS[name]
