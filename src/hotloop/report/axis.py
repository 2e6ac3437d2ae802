"""Axes of a chart: the position of a value between two ends, and ticks at 1, 2 and 5."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Axis", "linear", "short_number", "spanning"]

WIDE = 20.0  # largest over smallest value from which a linear axis would hide the small ones
WIDEST = 1e12  # beyond, the smallest value counts as 0
MARGIN = 0.05  # of the range, above and below a curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Two ends and the ticks between them."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def labels(self) -> list[str]:
        """The labels of the ticks, with enough decimals to tell them apart."""
        if self.logarithmic or len(self.ticks) < 2:
            return [short_number(tick) for tick in self.ticks]
        size, unit = _unit(max(map(abs, self.ticks)))
        decimals = -math.floor(math.log10((self.ticks[1] - self.ticks[0]) / size) + 1e-9)
        if decimals > 4:
            return [short_number(tick) for tick in self.ticks]
        labels = (f"{tick / size:,.{max(0, decimals)}f}" for tick in self.ticks)
        return [f"{text}{unit}" if float(text.replace(",", "")) else "0" for text in labels]


def linear(
    values: Iterable[float],
    *,
    ticks: int,
    zero: bool = False,
    tight: bool = False,
    least: float = 0.0,
) -> Axis:
    """Return a linear axis for finite values.

    `zero` includes 0; `tight` leaves out the margins. `least` is the smallest distance between
    two ticks: 1 for counts.
    """
    low, high = _ends(values)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    # A range may be too small for a float to divide.
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-280):
        half = abs(low) / 2 if abs(low) > 1e-200 else 0.5
        low, high = low - half, high + half
    margin = 0.0 if tight else (high - low) * MARGIN
    bottom = low if zero and low == 0 else low - margin
    top = high + margin
    step = _nice(max(least, (top - bottom) / ticks))
    first, last = math.ceil(bottom / step - 1e-9), math.floor(top / step + 1e-9)
    return Axis(low=bottom, high=top, ticks=tuple(n * step for n in range(first, last + 1)))


def spanning(values: Iterable[float], *, ticks: int) -> Axis:
    """Return a linear axis, or a logarithmic one for positive values of a wide range."""
    known = list(values)
    low, high = _ends(known)
    if low <= 0 or not WIDE <= high / low <= WIDEST:
        return linear(known, ticks=ticks)
    margin = (high / low) ** MARGIN
    low, high = low / margin, high * margin
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 3 else (1,)
    inside = [f * 10.0**d for d in decades for f in factors if low <= f * 10.0**d <= high]
    every = math.ceil(len(inside) / (2 * ticks))
    return Axis(low=low, high=high, ticks=tuple(inside[::every]), logarithmic=True)


def short_number(value: float) -> str:
    """Return a number as 0.0001, 2.5, 1,500, 20k or 3e-7."""
    size = abs(value)
    if size and (size < 1e-4 or size >= 1e15):
        return f"{value:.3g}".replace("e-0", "e-").replace("e+", "e")
    large, unit = _unit(size)
    return f"{value:,.0f}" if 1000 <= size < 1e4 else f"{value / large:.4g}{unit}"


def _unit(size: float) -> tuple[float, str]:
    """Return the power of 1000 to divide a number by, and its letter."""
    if size < 1e4:
        return 1.0, ""
    return next((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if size >= s)


def _ends(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    return (min(known), max(known)) if known else (0.0, 1.0)


def _nice(step: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= step * (1 - 1e-9))
