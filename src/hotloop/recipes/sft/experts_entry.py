"""The entry of expert-sft."""

from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.sft.config import asked_of, idle_sft
from hotloop.recipes.sft.experts_config import resolve_expert_sft
from hotloop.recipes.sft.presets import auto_sft

__all__ = ["RECIPE"]

RECIPE = Recipe(
    name="expert-sft",
    resolve=resolve_expert_sft,
    idle=idle_sft,
    auto=auto_sft,
    asked=asked_of,
    paths=("manifest",),
    data="answers",
    package=str(__package__),
    module="experts",
    ladder="ladders:EXPERT_SFT",
    sample="sampling:sample",
    manifests="manifests:typed_manifests",
)
