"""The one place that reads the environment: once, at import, and never writes it."""

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ENV", "Environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What hotloop takes from the environment."""

    cache: Path  # tokenised data and measurements live here; everything in it can be rebuilt
    no_color: bool
    rank: int  # torchrun's RANK; 0 for a single process
    world: int  # torchrun's WORLD_SIZE


def _read() -> Environment:
    get = os.environ.get
    fallback = Path(get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotloop"
    return Environment(
        cache=Path(get("HOTLOOP_CACHE") or fallback),
        no_color=bool(get("NO_COLOR")),
        rank=int(get("RANK") or 0),
        world=int(get("WORLD_SIZE") or 1),
    )


ENV = _read()
