"""The chat-sft recipe: answers of chats and instructions, by a pretrained language model."""

from __future__ import annotations

from functools import partial

from hotloop.recipes import sft
from hotloop.recipes.sft import rebuilt
from hotloop.recipes.sft_rows import order_of, prepare_data, sources_of
from hotloop.recipes.sft_samples import sample

__all__ = ["build", "order_of", "prepare_data", "rebuilt", "sample", "sources_of"]

build = partial(sft.build, name="chat-sft")
