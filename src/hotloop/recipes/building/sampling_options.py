"""Options of `hotloop sample`: which text a trained model generates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hotloop.core.errors import UsageError

__all__ = ["SamplingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Options of the text to sample; None leaves the choice to the recipe. Raises UsageError."""

    prompt: str | None = None  # beginning of the text
    suffix: str | None = None  # end of the text; diffusion only
    samples: int = 1
    length: int | None = None  # characters between prompt and suffix
    steps: int | None = None  # denoising steps; diffusion only
    temperature: float | None = None  # 0 takes the likeliest; next-char only
    seed: int = 1337

    def __post_init__(self) -> None:
        if "" in (self.prompt, self.suffix):
            raise UsageError("--prompt and --suffix must hold at least one character")
        if any(n is not None and n < 1 for n in (self.samples, self.length, self.steps)):
            raise UsageError("--samples, --length and --steps must be 1 or more")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UsageError("--temperature must be 0 or more")
