"""Settings that the recipes on pretrained text models share: adapters, and older spellings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from hotloop.config.common import ALIASES, NO_WORKERS
from hotloop.config.layers import SettingsLayer
from hotloop.config.schema import setting, setting_text
from hotloop.config.settings import DEFAULT, Resolved

__all__ = [
    "IA3_RATE",
    "NOT_PADDED",
    "SFT_ALIASES",
    "TEXT_ALIASES",
    "Adapter",
    "check_adapter",
    "field_aliases",
    "idle_text",
    "is_typed",
    "rate_by_method",
]

NOT_PADDED = "has no effect with data.layout=flat: rows are not padded"
_NO_ADAPTER = "has no effect with adapter.method=none"

TEXT_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **{old: new for old, new in ALIASES.items() if new != "model.context"},
        "model.name_or_path": "model.name",
        "model.model_name": "model.name",
        "model.base_model": "model.name",
        "model.path": "model.name",
        "model.max_length": "data.max_length",
        "data.max_seq_length": "data.max_length",
        "training.warmup_ratio": "training.warmup_share",
        "training.lr_scheduler_type": "training.schedule",
        "lora.r": "adapter.rank",
        "lora.rank": "adapter.rank",
        "lora.alpha": "adapter.alpha",
        "lora.dropout": "adapter.dropout",
        "lora.target_modules": "adapter.targets",
        "adapter.target_modules": "adapter.targets",
        "adapter.type": "adapter.method",
    }
)
SFT_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **TEXT_ALIASES,
        "data.question": "data.prompt",
        "data.question_column": "data.prompt",
        "data.answer": "data.response",
        "data.answer_column": "data.response",
        "data.completion": "data.response",
        "data.block_size": "data.max_length",
        "data.pretokenized_cache": "data.cache",
        "model.quantization": "adapter.quantization",
    }
)


def field_aliases(parts: Sequence[str]) -> dict[str, str]:
    """Return the setting that each key of a mapping of all keys at once stands for."""
    return {".".join(("data", "fields", part)): f"data.{part}" for part in parts}


def is_typed(origins: Mapping[str, str], key: str) -> bool:
    """Return whether a setting comes neither from a default nor from a preset."""
    return not origins[key].startswith(("auto", "preset", "default"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Adapters on frozen weights; method=none trains the whole model."""

    method: Literal["none", "lora", "dora", "ia3"] = setting("none", "adapters, or all weights")
    rank: int = setting(16, "of the products that adapt a weight", low=1)
    alpha: float = setting(32.0, "adapters count alpha / rank", low=0, low_open=True)
    dropout: float = setting(0.0, "share of the adapters' inputs dropped", low=0, high=0.9)
    targets: str = setting("all-linear", "ends of layers' names with commas between, or all-linear")


# Of (IA)3's authors, with Adafactor (arXiv 2205.05638, 2022). Its vectors begin at 1: 75 steps of
# Adam at LoRA's 5e-4 move them by 0.04 at most (docs/defaults.md).
IA3_RATE: Final = 3e-3


def rate_by_method(rates: Mapping[str, float]) -> Callable[[Resolved[Any]], SettingsLayer | None]:
    """Return a `Resolver.derived`: the default learning rate that suits adapter.method.

    `rates` are by method; a method that is missing has the rate of the schema, and so has a run
    whose min_learning_rate the user set higher.
    """
    key, floor = "training.learning_rate", "training.min_learning_rate"

    def derived(resolved: Resolved[Any]) -> SettingsLayer | None:
        method = resolved.config.adapter.method
        if resolved.origins[key] != DEFAULT or method not in rates:
            return None
        if (
            floor in resolved.requested
            and resolved.config.training.min_learning_rate > rates[method]
        ):
            return None
        origin = f"{DEFAULT} of adapter.method={method}"
        return SettingsLayer(origin=origin, values={key: rates[method]})

    return derived


def idle_text(adapter: Adapter) -> dict[str, str]:
    """Return, by key, why settings that text recipes share have no effect where they are set."""
    keys = [f"adapter.{name}" for name in ("rank", "alpha", "dropout", "targets")]
    whys = dict.fromkeys(keys if adapter.method == "none" else [], _NO_ADAPTER)
    return {**whys, "data.num_workers": NO_WORKERS}


def check_adapter(config: object, adapter: Adapter, origins: Mapping[str, str]) -> list[str]:
    """Return a sentence for each contradiction among the adapter settings."""
    names = adapter.targets.split(",")
    targets = setting_text(config, "adapter.targets", origins)
    if not all(name.strip() for name in names):
        return [f"{targets} names nothing between two commas"]
    if "all-linear" in names and len(names) > 1:
        return [f"{targets}: all-linear has every layer in it already; leave the others out"]
    return []
