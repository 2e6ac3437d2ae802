"""Finds out why a PyTorch training run is slow, fixes it, proves the fix, and trains at full speed.

`import hotloop` needs no torch; the public functions are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hotloop.core.package import __version__ as __version__

if TYPE_CHECKING:
    from hotloop.api import doctor, load_run, train, tune

__all__ = ["doctor", "load_run", "train", "tune"]

_HOMES = dict.fromkeys(__all__, f"{__name__}.api")


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hotloop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
