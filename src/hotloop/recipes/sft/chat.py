"""The chat-sft recipe: fine-tunes a language model on the answers of chats and instructions."""

from __future__ import annotations

from functools import partial

from hotloop.recipes.sft import recipe
from hotloop.recipes.sft.recipe import rebuilt
from hotloop.recipes.sft.rows import order_of, prepare_data, sources_of

__all__ = ["build", "order_of", "prepare_data", "rebuilt", "sources_of"]

build = partial(recipe.build, name="chat-sft")
