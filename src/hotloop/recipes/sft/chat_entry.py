"""The entry of chat-sft."""

from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.sft.chat_config import resolve_chat_sft
from hotloop.recipes.sft.config import asked_of, idle_sft
from hotloop.recipes.sft.presets import auto_sft

__all__ = ["RECIPE"]

RECIPE = Recipe(
    name="chat-sft",
    resolve=resolve_chat_sft,
    idle=idle_sft,
    auto=auto_sft,
    asked=asked_of,
    data="answers",
    package=str(__package__),
    module="chat",
    ladder="ladders:CHAT_SFT",
    sample="sampling:sample",
)
