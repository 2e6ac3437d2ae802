"""Keeps samples and computes mean, lowest, highest and 95th percentile of each reading."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.monitor.sample import MachineSample

__all__ = ["SampleHistory", "SeriesStats", "headline", "name_of", "shown"]

MOST = 7200  # samples kept, 2 hours at 1 Hz; beyond, every second one is dropped

_UNITS: dict[str, Callable[[float], str]] = {  # suffix of a name -> format of its value
    "_bytes_per_s": lambda v: f"{bytes_(v)}/s",
    "_bytes": bytes_,
    "_percent": lambda v: f"{v:.0f} %",
    "_per_s": lambda v: f"{count(v)}/s",
    "_mhz": lambda v: f"{v:.0f} MHz",
    "_w": lambda v: f"{v:.0f} W",
    "_c": lambda v: f"{v:.0f} \N{DEGREE SIGN}C",
    "_cores": lambda v: f"{v:.2f} cores",
}
_WIDTH = ("_max_clock_mhz", "_power_limit_w", "_generation", "_generation_max", "_width")
_NO_NEWS = (*_WIDTH, "_width_max", "run_step", "process_count")  # constant, or only growing


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStats:
    """One reading over the whole time, in the unit at the end of its name."""

    mean: float
    low: float
    high: float
    p95: float  # nearest rank; beyond MOST samples, of every second one
    n: int


class SampleHistory:
    """All samples, thinned over a long time; mean and extremes remain those of all samples."""

    def __init__(self) -> None:
        self.samples: list[MachineSample] = []
        self.seen = 0  # samples taken
        self.slowed: Counter[tuple[int, str]] = Counter()  # (GPU, why) -> samples
        self.phases: Counter[str] = Counter()  # what a run did -> samples
        self._every = 1
        self._sums: dict[str, tuple[int, float, float, float]] = {}  # n, sum, lowest, highest
        self._sorted: dict[str, list[float]] = {}

    def add(self, sample: MachineSample) -> None:
        """Add the next sample."""
        for name, value in sample.values.items():
            n, total, low, high = self._sums.get(name, (0, 0.0, math.inf, -math.inf))
            self._sums[name] = n + 1, total + value, min(low, value), max(high, value)
            insort(self._sorted.setdefault(name, []), value)
            if len(self._sorted[name]) >= 2 * MOST:
                del self._sorted[name][::2]
        self.slowed.update((gpu, why) for gpu, reasons in sample.slowed.items() for why in reasons)
        if sample.run is not None and sample.run.phase is not None:
            self.phases[sample.run.phase] += 1
        if self.seen % self._every == 0:
            self.samples.append(sample)
        self.seen += 1
        if len(self.samples) >= 2 * MOST:
            del self.samples[1::2]
            self._every *= 2

    def stats(self) -> dict[str, SeriesStats]:
        """Return the statistics of each reading that occurred at least once."""
        return {
            name: SeriesStats(mean=total / n, low=low, high=high, p95=self._p95(name), n=n)
            for name, (n, total, low, high) in self._sums.items()
        }

    def _p95(self, name: str) -> float:
        known = self._sorted[name]
        return known[math.ceil(0.95 * len(known)) - 1]


def headline(name: str) -> bool:
    """Whether a reading belongs in a summary, which omits single cores and constants."""
    return not name.startswith("cpu_core") and not name.endswith(_NO_NEWS)


def name_of(name: str) -> str:
    """Return a reading's name without its unit, in words."""
    unit = next((unit for unit in _UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit).replace("_", " ")


def shown(name: str, value: float) -> str:
    """Return a value with its unit, formatted for people."""
    unit = next((unit for unit in _UNITS if name.endswith(unit)), None)
    return _UNITS[unit](value) if unit else f"{value:g}"
