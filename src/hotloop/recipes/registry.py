"""The recipes by name; an entry is imported when it is asked for. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hotloop.core.errors import UsageError, did_you_mean
from hotloop.recipes.building.entry import Recipe, imported

__all__ = ["RECIPES", "find", "summaries"]

_ENTRIES: Final = {  # name -> its entry, in this package, and its line in the help
    "char-lm": ("char_lm.entry:RECIPE", "character-level language model on text files"),
    "pair-classifier": (
        "pair_classifier.entry:RECIPE",
        "labels of texts or pairs of texts, by a pretrained model",
    ),
    "chat-sft": (
        "sft.entry:RECIPE",
        "answers of chats and instructions, by a pretrained language model",
    ),
    "expert-sft": (
        "sft.entry:EXPERTS",
        "an adapter for each of some manifests, on packed rows",
    ),
    "task-router": (
        "task_router.entry:RECIPE",
        "an adapter for each task on one frozen model, and a router that picks one",
    ),
}


class _Recipes(Mapping[str, Recipe]):
    """Imports an entry at its first use: a run needs one recipe, not all of them."""

    def __getitem__(self, name: str) -> Recipe:
        recipe: Recipe = imported(str(__package__), _ENTRIES[name][0])
        return recipe

    def __iter__(self) -> Iterator[str]:
        return iter(_ENTRIES)

    def __len__(self) -> int:
        return len(_ENTRIES)


RECIPES: Final[Mapping[str, Recipe]] = _Recipes()


def find(name: str) -> Recipe:
    """Return the recipe called `name`; UsageError lists the ones there are."""
    if name not in _ENTRIES:
        near = did_you_mean(name, _ENTRIES)
        raise UsageError(f"no recipe is called {name!r}{near} (there are: {', '.join(_ENTRIES)})")
    return RECIPES[name]


def summaries() -> str:
    """Return a line of help for each recipe; no entry is imported."""
    return "\n".join(f"  {name}: {summary}" for name, (_, summary) in _ENTRIES.items())
