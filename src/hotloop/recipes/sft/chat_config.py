"""Configures chat-sft, which teaches a language model the answers of some rows."""

from dataclasses import dataclass

from hotloop.config.common import AUTO, Resolver
from hotloop.config.schema import setting
from hotloop.config.text_common import SFT_ALIASES
from hotloop.recipes.sft.config import SftConfig, check_sft
from hotloop.recipes.sft.presets import SFT_EXPERIMENTS, SFT_PRESETS

__all__ = ["ChatSftConfig", "resolve_chat_sft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSftConfig(SftConfig):
    """Everything that decides a chat-sft run, but for the machine."""

    preset: str = setting(AUTO, "values for a card", choices=(AUTO, *SFT_PRESETS))
    experiment: str | None = setting(None, "values of a known experiment", choices=SFT_EXPERIMENTS)


resolve_chat_sft = Resolver(
    schema=ChatSftConfig,
    aliases=SFT_ALIASES,
    presets=SFT_PRESETS,
    experiments=SFT_EXPERIMENTS,
    check=check_sft,
)
