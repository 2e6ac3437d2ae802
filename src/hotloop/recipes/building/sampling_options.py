"""Wanted, which text a trained model is to write."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hotloop.core.errors import UsageError

__all__ = ["SamplingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Which text is to be drawn; None leaves it to the objective. Raises UsageError."""

    prompt: str | None = None  # what the text begins with
    suffix: str | None = None  # what it ends with; diffusion only
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
