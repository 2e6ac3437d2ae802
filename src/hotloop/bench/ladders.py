"""Finds a ladder by the name of its recipe, through the recipe's entry in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError, did_you_mean
from hotloop.recipes.registry import RECIPES

if TYPE_CHECKING:
    from hotloop.recipes.building.ladder import Ladder

__all__ = ["LADDERS", "find"]

LADDERS = tuple(RECIPES)


def find(name: str) -> Ladder:
    """Return the ladder of a recipe; raise UsageError, with all names, for an unknown name."""
    if name not in LADDERS:
        near = did_you_mean(name, LADDERS)
        raise UsageError(f"no ladder is called {name!r}{near} (there are: {', '.join(LADDERS)})")
    recipe = RECIPES[name]
    ladder: Ladder = recipe.load(recipe.ladder)
    return ladder
