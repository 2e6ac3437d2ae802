"""The entries of chat-sft and expert-sft."""

from dataclasses import replace

from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.sft.config import idle_sft, requested_of, resolve_chat_sft, resolve_expert_sft
from hotloop.recipes.sft.presets import auto_sft

__all__ = ["EXPERTS", "RECIPE"]

RECIPE = Recipe(
    name="chat-sft",
    resolve=resolve_chat_sft,
    idle=idle_sft,
    auto=auto_sft,
    checkpointing="model.checkpointing",
    freezes=lambda config: config.adapter.method != "none",
    requested=requested_of,
    data="answers",
    package=str(__package__),
    ladder="ladders:CHAT_SFT",
    sample="sampling:sample",
)
EXPERTS = replace(
    RECIPE,
    name="expert-sft",
    resolve=resolve_expert_sft,
    paths=("manifest",),
    ladder="ladders:EXPERT_SFT",
    manifests="manifests:typed_manifests",
    checks="manifests:checked_manifests",
)
