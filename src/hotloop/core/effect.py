"""One row of the table requested / in effect. Needs no torch: reports read it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Effect", "Word"]

Word = Literal["in effect", "not needed here", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The outcome of a request for a technique."""

    technique: str  # with its choices
    origin: str  # where the request came from
    word: Word
    how: str  # how it was read back, or why not
