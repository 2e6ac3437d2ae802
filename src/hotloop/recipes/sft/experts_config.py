"""Configures expert-sft, which trains an adapter for each of some manifests."""

from dataclasses import dataclass, field

from hotloop.config.common import AUTO, Resolver
from hotloop.config.schema import setting
from hotloop.config.text_common import SFT_ALIASES
from hotloop.recipes.sft.config import SftConfig, SftData, check_sft
from hotloop.recipes.sft.presets import SFT_EXPERIMENTS, SFT_PRESETS

__all__ = ["ExpertSftConfig", "resolve_expert_sft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSftConfig(SftConfig):
    """Everything that decides an expert-sft run, but for the machine."""

    preset: str = setting(AUTO, "values for a card", choices=(AUTO, *SFT_PRESETS))
    experiment: str | None = setting(None, "values of a known experiment", choices=SFT_EXPERIMENTS)
    manifest: str | None = setting(None, "JSON manifest of the expert; several with commas between")
    output: str | None = setting(None, "folder of the run; {model} is the expert's name")
    data: SftData = field(
        default_factory=lambda: SftData(packing=True, group_by_length=False, max_length=2048)
    )


resolve_expert_sft = Resolver(
    schema=ExpertSftConfig,
    aliases=SFT_ALIASES,
    presets=SFT_PRESETS,
    experiments=SFT_EXPERIMENTS,
    check=check_sft,
)
