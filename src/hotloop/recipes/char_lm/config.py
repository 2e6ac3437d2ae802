"""Configures char-lm, a character language model: its settings, their order and checks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.common import (
    ALIASES,
    ALL,
    AUTO,
    NO_WORKERS,
    PRESET_MEANING,
    Data,
    Training,
    check_shared,
    set_names,
)
from hotloop.config.layers import COMMAND_LINE
from hotloop.config.resolver import Resolver
from hotloop.config.schema import idle, setting, setting_text
from hotloop.core.errors import ConfigError, did_you_mean
from hotloop.recipes.char_lm.presets import EFFORTS, EXPERIMENTS, PRESETS

__all__ = [
    "CharLmConfig",
    "CharModel",
    "Diffusion",
    "attention_of",
    "check_char_lm",
    "idle_char_lm",
    "one_set",
    "resolve_char_lm",
    "set_labels",
]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CharModel:
    """The decoder: nanoGPT's character model by default, about 11 M parameters."""

    layers: int = setting(6, "transformer blocks", low=1)
    heads: int = setting(6, "attention heads; width is divisible by it", low=1)
    width: int = setting(384, "channels of the residual stream", low=1)
    context: int = setting(256, "characters a prediction can see", low=1)
    dropout: float = setting(0.2, "share dropped in training", low=0, high=1, high_open=True)
    attention: Literal["auto", "naive", "math", "efficient", "flash", "cudnn"] = setting(
        "auto", "attention kernel; naive is written out"
    )
    bias: bool = setting(False, "biases in linear layers and norms")

    @property
    def sizes(self) -> dict[str, Any]:
        """Return the arguments of a new model: all settings but the kernel."""
        return {key: value for key, value in asdict(self).items() if key != "attention"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diffusion:
    """The noise of objective=diffusion: geometric, from sigma_min to sigma_max.

    Defaults: configs/config.yaml of github.com/louaaron/Score-Entropy-Discrete-Diffusion, 2026-11.
    """

    transition: Literal["absorbing", "uniform"] = setting(
        "absorbing", "noise makes of a character: a mask, or any character"
    )
    sigma_min: float = setting(
        1e-4, "noise at time 0; it hits this share", low=0, low_open=True, high=0.01
    )
    sigma_max: float = setting(20.0, "noise at time 1; exp(-it) survives", low=5, high=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class CharLmConfig:
    """Everything that decides a char-lm run, but for the machine."""

    seed: int = setting(1337, "of weights, order and dropout", low=0, high=2**32 - 1)
    preset: str = setting(AUTO, PRESET_MEANING, choices=(AUTO, *PRESETS, *EFFORTS))
    experiment: str | None = setting(None, "values of a known experiment", choices=EXPERIMENTS)
    objective: Literal["next-char", "diffusion"] = setting(
        "next-char", "what is learned; diffusion denoises whole windows"
    )
    dataset: str | None = setting(None, "a name of data.sets, or all: a run for each")
    init_from: str | None = setting(None, "weights to start from: .safetensors, .pt or a run")
    training: Training = field(default_factory=lambda: Training(max_steps=5000))
    data: Data = field(default_factory=Data)
    model: CharModel = field(default_factory=CharModel)
    diffusion: Diffusion = field(default_factory=Diffusion)


def check_char_lm(config: CharLmConfig, origins: Mapping[str, str] = _NOTHING) -> None:
    """Raise ConfigError for settings that contradict each other."""
    check_shared(config, origins, set_names(config, config.data.sets, origins))
    model, sets, dataset = config.model, config.data.sets, config.dataset

    def setting_of(key: str) -> str:
        return setting_text(config, key, origins)

    if model.width % model.heads:
        raise ConfigError(
            f"{setting_of('model.width')} is not divisible by {setting_of('model.heads')}"
        )
    if model.width // model.heads % 2:
        raise ConfigError(
            f"{setting_of('model.width')} over {setting_of('model.heads')} gives heads of "
            f"{model.width // model.heads}; rotary positions turn pairs, so it must be even"
        )
    typed = {key for key, origin in origins.items() if origin == COMMAND_LINE}
    if useless := {k: text for k, text in idle_char_lm(config, origins).items() if k in typed}:
        remedies = {
            key: ", or set objective=diffusion" for key in useless if key.startswith("diffusion.")
        }
        raise ConfigError(
            "\n".join(
                f"{text}; leave it out{remedies.get(key, '')}" for key, text in useless.items()
            )
        )
    if dataset is None:
        if sets and config.data.path is None:
            raise ConfigError(
                f"{setting_of('data.sets')}: say which, dataset=NAME or dataset={ALL}"
            )
        return
    if config.data.path is not None:
        raise ConfigError(
            f"{setting_of('dataset')} and {setting_of('data.path')}: give one of them"
        )
    if not sets or dataset not in (ALL, *sets):
        names = ", ".join([*sets, ALL]) if sets else "none; set data.sets={NAME: PATH}"
        hint = did_you_mean(dataset, [*sets, ALL]) if sets else ""
        raise ConfigError(f"{setting_of('dataset')} is no name of data.sets (known: {names}){hint}")


def attention_of(config: CharLmConfig) -> tuple[str, int]:
    """Return the attention kernel that the settings ask for, and over how many characters."""
    return config.model.attention, config.model.context


def set_labels(config: CharLmConfig) -> Mapping[str, str]:
    """Return the key of each data set with a run of its own, by name; empty for one run."""
    return {name: f"data.sets.{name}" for name in config.data.sets if config.dataset == ALL}


def one_set(config: CharLmConfig, name: str) -> CharLmConfig:
    """Return the configuration of one data set's run, as if the user had asked for it alone."""
    data = replace(config.data, path=config.data.sets[name], sets={})
    return replace(config, dataset=None, data=data)


def idle_char_lm(config: CharLmConfig, origins: Mapping[str, str]) -> dict[str, str]:
    """Return, by key, the reason why a non-default setting has no effect."""
    whys = {"data.num_workers": NO_WORKERS}
    if config.objective != "diffusion":
        why = f"has no effect with objective={config.objective}"
        whys |= {f"diffusion.{field.name}": why for field in fields(Diffusion)}
    return idle(config, origins, whys)


resolve_char_lm = Resolver(
    schema=CharLmConfig,
    aliases=ALIASES,
    presets=PRESETS,
    efforts=EFFORTS,
    experiments=EXPERIMENTS,
    check=check_char_lm,
    row="model.context",
)
