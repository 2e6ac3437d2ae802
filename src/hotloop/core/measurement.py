"""A number with its origin: all readings are kept, and summarised on demand."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeGuard, get_args

from hotloop.core.errors import DataError, HotloopError, did_you_mean

__all__ = ["RISK", "Measurement", "Source", "student", "typical"]

Source = Literal["measured", "published", "derived"]

RISK = 0.01  # that an interval misses the true value

# hotloop's own thresholds for the answer "cannot be told".
_FEWEST = 5  # readings: the fewest whose quartiles do not depend on the single worst one
_WIDEST = 0.10  # interquartile range over median
_DRIFT = 0.05  # second half against first, over median
_FEWEST_FOR_DRIFT = 10  # two halves of five
_HICCUPS = 0.05  # share of the times, the longest ones, that are not typical: mostly the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Repeated readings of one quantity in `unit`, in the order in which they were taken.

    `where` is the citation of an external number; a published one must have it, and a derived one
    has it if it is computed from published figures. Raises HotloopError without readings.
    """

    unit: str
    readings: tuple[float, ...]
    source: Source = "measured"
    where: str | None = None

    def __post_init__(self) -> None:
        if not self.readings:
            raise HotloopError(f"a Measurement in {self.unit!r} needs at least one reading, got 0")
        if self.source == "published" and not self.where:
            raise HotloopError(f"a published number in {self.unit!r} needs `where`, its citation")

    @property
    def n(self) -> int:
        """Return the number of readings."""
        return len(self.readings)

    @property
    def median(self) -> float:
        """Return the median reading, in `unit`, which an occasional slow step does not affect."""
        return statistics.median(self.readings)

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Return the first and third quartile, in `unit`; None for too few or infinite readings."""
        if self.n < 2 or not self._finite:
            return None
        low, _, high = statistics.quantiles(self.readings, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> float | None:
        """Return the interquartile range over the median; None if there are no quartiles."""
        if self.quartiles is None or self.median == 0:
            return None
        low, high = self.quartiles
        return (high - low) / abs(self.median)

    @property
    def drift(self) -> float | None:
        """Return (median of second half - of first half) / median; None under ten readings."""
        if self.n < _FEWEST_FOR_DRIFT or not self._finite or self.median == 0:
            return None
        first, second = self._halves
        return (statistics.median(second) - statistics.median(first)) / abs(self.median)

    def why_unstable(self) -> str | None:
        """Return why this number must not be compared, or None if it may be.

        A cited number has a single reading, so count, spread and drift do not apply to it.
        """
        if not self._finite:
            bad = sum(not math.isfinite(reading) for reading in self.readings)
            return f"{bad} of {self.n} readings are not finite"
        if self.median <= 0:
            return f"the median is {self.median:g} {self.unit}, which no speed or time can be"
        return None if self.where else self._why_noisy()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; a reading that is not finite becomes a string."""
        readings = [value if math.isfinite(value) else str(value) for value in self.readings]
        value: dict[str, Any] = {"unit": self.unit, "readings": readings, "source": self.source}
        return value | ({"where": self.where} if self.where is not None else {})

    @classmethod
    def from_json(cls, value: object, *, place: str = "measurement") -> Self:
        """Return the object that `to_json` wrote; errors name it `place`. Raises DataError."""
        if not isinstance(value, dict):
            raise DataError(f"{place}: expected an object, got {type(value).__name__}")
        for key in value.keys() - {"unit", "readings", "source", "where"}:
            hint = did_you_mean(str(key), ("unit", "readings", "source", "where"))
            raise DataError(f"{place}: unknown key {key!r}{hint}")
        unit, where, source = value.get("unit"), value.get("where"), value.get("source")
        if not isinstance(unit, str):
            raise DataError(f"{place}.unit: expected a string, got {unit!r}")
        if not _is_source(source):
            raise DataError(f"{place}.source: expected one of {get_args(Source)}, got {source!r}")
        if not (where is None or isinstance(where, str)) or (source == "published" and not where):
            raise DataError(f"{place}.where: expected the citation as a string, got {where!r}")
        readings = _numbers(value.get("readings"), f"{place}.readings")
        return cls(unit=unit, readings=readings, source=source, where=where)

    @property
    def _finite(self) -> bool:
        return all(map(math.isfinite, self.readings))

    @property
    def _halves(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        middle = self.n // 2
        return self.readings[:middle], self.readings[-middle:]

    def _why_noisy(self) -> str | None:
        if self.n < _FEWEST:
            return f"only {self.n} reading{'s' * (self.n > 1)}, at least {_FEWEST} are needed"
        if self.spread is not None and self.spread > _WIDEST:
            return f"readings spread by {self.spread:.0%} of the median, at most {_WIDEST:.0%}"
        if self.drift is None:
            return None
        # A jump between the halves, not noise inside them: it must exceed both their ranges.
        moved = abs(self.drift * self.median)
        if abs(self.drift) > _DRIFT and moved > max(map(_iqr, self._halves)):
            return f"the second half of the readings is off the first by {self.drift:+.0%}"
        return None


def typical(times: Sequence[float]) -> float:
    """Return the mean without the longest times; 0 for none. Means of a step's parts add up."""
    shortest = sorted(times)[: math.ceil(len(times) * (1 - _HICCUPS))]
    return statistics.mean(shortest) if shortest else 0.0


def student(freedom: int, risk: float) -> float:
    """Return Student's t: the half width, in standard errors, of an interval that misses with
    `risk`.

    Accurate within 4 % from 3 degrees of freedom on. Source: Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.5.
    """
    z = statistics.NormalDist().inv_cdf(1 - risk / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))


def _is_source(value: object) -> TypeGuard[Source]:
    return value in get_args(Source)


def _iqr(readings: tuple[float, ...]) -> float:
    low, _, high = statistics.quantiles(readings, n=4, method="inclusive")
    return high - low


def _numbers(value: object, place: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise DataError(f"{place}: expected a list of at least one number, got {value!r}")
    return tuple(_number(item, place) for item in value)


def _number(item: object, place: str) -> float:
    spelled = isinstance(item, str) and item in ("nan", "inf", "-inf")
    if spelled or (isinstance(item, int | float) and not isinstance(item, bool)):
        try:
            return float(item)  # type: ignore[arg-type]
        except OverflowError:
            pass
    raise DataError(f"{place}: expected numbers, got {item!r:.60}")
