"""Configure a model's adapters: kind, rank, scaling, and targets."""

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from hotloop.core.errors import ConfigError, did_you_mean

__all__ = ["ALL_LINEAR", "KINDS", "AdapterConfig", "matches"]

ALL_LINEAR: Final = "all-linear"
KINDS: Final = ("lora", "dora", "ia3")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """The adapters of a model, in PEFT's terms; raises ConfigError for impossible values.

    Sources: Hu et al. 2021, arXiv:2106.09685 (LoRA); Liu et al. 2024, arXiv:2402.09353 (DoRA);
    Kalajdzievski 2023, arXiv:2312.03732 (rsLoRA); Liu et al. 2022, arXiv:2205.05638 ((IA)^3).
    """

    kind: Literal["lora", "dora", "ia3"] = "lora"
    rank: int = 16  # not used by ia3
    alpha: float = 32.0  # the update is scaled by alpha / rank
    rslora: bool = False  # scale by alpha / sqrt(rank) instead
    dropout: float = 0.0  # share of the adapters' inputs dropped in training
    # Ends of names ("q_proj"), or "all-linear" (all but the head), or a regex for whole names.
    targets: str | tuple[str, ...] = ALL_LINEAR
    # Ends of names of targets whose inputs, not outputs, ia3 scales.
    feedforward: tuple[str, ...] = ("down_proj", "output.dense", "fc2")
    # Modules that are trained whole and saved with the adapters, such as a new head.
    modules_to_save: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            known = ", ".join(KINDS)
            raise ConfigError(
                f"adapter kind {self.kind!r} is not one of {known}{did_you_mean(self.kind, KINDS)}"
            )
        if self.rank < 1:
            raise ConfigError(f"adapter rank is 1 or more, not {self.rank}")
        if not 0 < self.alpha < math.inf:
            raise ConfigError(f"adapter alpha is above 0 and finite, not {self.alpha}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"adapter dropout is at least 0 and below 1, not {self.dropout}")
        if not self.targets:
            raise ConfigError(
                'adapters have no targets: give ends of names like ["q_proj", "v_proj"], or '
                f'"{ALL_LINEAR}"'
            )
        if isinstance(self.targets, str) and self.targets != ALL_LINEAR:
            try:
                re.compile(self.targets)
            except re.error as error:
                raise ConfigError(
                    f"adapter targets {self.targets!r} is no regular expression ({error}); ends of "
                    'names go into a list: ["q_proj", "v_proj"]'
                ) from error

    @property
    def scaling(self) -> float:
        """Return the factor of the product of B and A."""
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)

    def is_feedforward(self, name: str) -> bool:
        """Return whether ia3 scales this layer's inputs."""
        return any(matches(name, end) for end in self.feedforward)


def matches(name: str, end: str) -> bool:
    """Return whether a module's name is `end` or ends in a dot and `end`."""
    return name == end or name.endswith(f".{end}")
