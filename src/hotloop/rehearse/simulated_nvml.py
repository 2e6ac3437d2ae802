"""A module in place of nvidia-ml-py's: how busy a simulated card is, by the time of its work.

Of NVML's calls it has those that hotloop makes to read the use of a GPU.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace

from hotloop.nullcard import counts

__all__ = ["install"]


def install() -> None:
    """Let `import pynvml` give this module."""
    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=OSError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetUtilizationRates=_Use().since_last,
    )
    sys.modules["pynvml"] = module


class _Use:
    """The share of the time in which the card worked, since the last question."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def since_last(self, _: object) -> SimpleNamespace:
        worked, now = counts.worked_seconds(), time.perf_counter()
        before, self._last = self._last or (0.0, now - 1.0), (worked, now)
        share = (worked - before[0]) / max(now - before[1], 1e-3)
        return SimpleNamespace(gpu=100 * min(1.0, max(0.0, share)))
