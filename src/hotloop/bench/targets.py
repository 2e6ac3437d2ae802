"""Parses the targets of a rung and judges whether they are met, and by how much."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.bench.metrics import Metric, metric
from hotloop.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.bench.result import RungResult

__all__ = ["Requirement", "RequirementVerdict", "judge", "parse"]

_TARGET: Final = re.compile(r"([A-Za-z_]+)(>=|<=)([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)")
_UNITS: Final = {  # by the unit of a figure: allowed suffix of the number -> its factor
    "": {"": 1.0, "k": 1e3, "M": 1e6},
    "B": {"B": 1.0, "MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30},
    "s": {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0},
    "%": {"": 1.0, "%": 0.01},
    "C": {"": 1.0, "C": 1.0},
}
_RATES: Final = ("it_per_s", "samples_per_s", "tokens_per_s", "targets_per_s")
_HOLDS: Final = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One figure and its bound."""

    text: str
    metric: Metric
    bound: str  # >= or <=
    limit: float  # in the figure's own unit; relative to the lowest rung if `relative`
    relative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementVerdict:
    """Whether a target was met."""

    target: Requirement
    met: bool
    why: str  # a sentence without its full stop

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"target": self.target.text, "met": self.met, "why": self.why}


def parse(text: str) -> list[Requirement]:
    """Return the targets of, e.g., "tokens_per_s>=5x vram<=23GiB"; raise UsageError otherwise.

    The unit `x` is relative to the lowest rung; only rates take it, by their ratio within rounds.
    """
    requirements = [_target(word) for word in text.split()]
    if not requirements:
        raise UsageError("--require is empty: expected NAME>=NUMBER or NAME<=NUMBER")
    return requirements


def _target(word: str) -> Requirement:
    match = _TARGET.fullmatch(word)
    if match is None:
        raise UsageError(
            f"--require {word!r}: expected NAME>=NUMBER or NAME<=NUMBER with a unit and without "
            "spaces, such as tokens_per_s>=5x or vram<=23GiB"
        )
    name, bound, number, unit = match.groups()
    figure, relative = metric(name), unit == "x"
    if relative and figure.name not in _RATES:
        raise UsageError(f"--require {word!r}: x goes with {', '.join(_RATES)}")
    units = {"x": 1.0} if relative else _UNITS[figure.unit]
    if unit not in units:
        known = ", ".join(repr(suffix) for suffix in units if suffix) or "none"
        known += " or none" if "" in units else ""
        raise UsageError(
            f"--require {word!r}: {figure.name} has no unit {unit!r}; expected {known}"
        )
    limit = float(number) * units[unit]
    return Requirement(text=word, metric=figure, bound=bound, limit=limit, relative=relative)


def judge(
    targets: Sequence[Requirement], row: RungResult | None, why_none: str
) -> list[RequirementVerdict]:
    """Judge a rung by its targets. A target whose figure is unknown is missed, with the reason."""
    return [_verdict(target, row, why_none) for target in targets]


def _verdict(target: Requirement, row: RungResult | None, why_none: str) -> RequirementVerdict:
    if row is None or not row.is_measured:
        why = why_none if row is None else str(row.why)
        return RequirementVerdict(target=target, met=False, why=why)
    name = target.metric.name
    shown: Callable[[float], str] = target.metric.shown
    if target.relative:
        value = None if row.comparison is None else row.comparison.ratio
        value = 1 / value if value else None
        shown = "{:.2f}x".format
    else:
        value = row.figures.get(name)
    if value is None:
        why = row.unknown.get(name, "it was not read")
        return RequirementVerdict(target=target, met=False, why=f"{name} is unknown: {why}")
    met = _HOLDS[target.bound](value, target.limit)
    why = f"{name} is {shown(value)}, asked {target.bound} {shown(target.limit)}"
    if target.relative and row.comparison is not None:
        why += f" (interval {row.comparison.factor}, n={row.comparison.n})"
    if not met:
        why += f": off by {abs(value / target.limit - 1):.0%}" if target.limit else ""
    return RequirementVerdict(target=target, met=bool(met), why=why)
