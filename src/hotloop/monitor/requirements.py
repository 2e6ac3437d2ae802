"""Parses and judges the conditions of --require on readings, such as "gpu_util>=60%"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from hotloop.core.errors import UsageError, did_you_mean
from hotloop.monitor.series import name_of, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.monitor.series import SeriesStats

__all__ = ["ReadingRequirement", "ReadingVerdict", "judged", "parse_requirements"]

_WORD: Final = re.compile(r"([a-z0-9_]+)(>=|<=)(\d+(?:\.\d+)?)(%|C|W|MHz|MiB|GiB)?")
_BYTES: Final = {"MiB": 1 << 20, "GiB": 1 << 30}
_SUFFIXES: Final = {  # unit -> end of the name of a reading
    "%": "_percent", "C": "_c", "W": "_w", "MHz": "_mhz", "MiB": "_bytes", "GiB": "_bytes",
}  # fmt: skip
_SHORT: Final = {"gpu_util": "utilisation_percent"}  # nvidia-smi's word
_GPU: Final = re.compile(r"gpu\d+_(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRequirement:
    """A bound for a reading: its mean must be at least, or its highest value at most, this."""

    text: str  # as typed
    name: str  # of a reading, or of a reading of every GPU without the GPU's number
    bound: Literal[">=", "<="]
    limit: float

    def of(self, name: str) -> bool:
        """Return whether a reading is meant."""
        match = _GPU.fullmatch(name)
        return self.name == name or (match is not None and self.name == match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingVerdict:
    """Whether a requirement is met, and why."""

    requirement: str  # as typed
    outcome: Literal["met", "MISSED", "UNKNOWN"]
    why: str  # a sentence without its full stop


def parse_requirements(text: str) -> list[ReadingRequirement]:
    """Return the requirements in a text, which spaces separate. Raises UsageError."""
    example = '"gpu_util>=60% temperature_c<=85"'
    words = text.split()
    if not words:
        raise UsageError(f"--require is empty: expected conditions such as {example}")
    found = []
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            quotes = "; put quotes around them, or the shell takes > for a file"
            raise UsageError(f"--require {word!r}: expected a condition such as {example}{quotes}")
        name, bound, number, unit = match.groups()
        whole = _SHORT.get(name, name)
        if unit is not None and not whole.endswith(_SUFFIXES[unit]):
            raise UsageError(f"--require {word!r}: {name} is not counted in {unit}")
        found.append(
            ReadingRequirement(
                text=word,
                name=whole,
                bound=bound,  # type: ignore[arg-type] # the pattern allows two
                limit=float(number) * _BYTES.get(unit or "", 1),
            )
        )
    return found


def judged(
    requirements: Sequence[ReadingRequirement], stats: Mapping[str, SeriesStats]
) -> list[ReadingVerdict]:
    """Return a verdict for each requirement; of several GPUs all must meet it."""
    return [_judged(requirement, stats) for requirement in requirements]


def _judged(one: ReadingRequirement, stats: Mapping[str, SeriesStats]) -> ReadingVerdict:
    figures = {name: found for name, found in stats.items() if one.of(name)}
    if not figures:
        known = {name for key in stats for name in (key, *_unnumbered(key))}
        why = f"nothing read {one.name}{did_you_mean(one.name, known)}"
        return ReadingVerdict(requirement=one.text, outcome="UNKNOWN", why=why)
    is_least = one.bound == ">="
    values = {name: found.mean if is_least else found.high for name, found in figures.items()}
    name, value = (min if is_least else max)(values.items(), key=lambda pair: pair[1])
    is_met = value >= one.limit if is_least else value <= one.limit
    what = "mean" if is_least else "highest"
    why = f"{name_of(name)}: {what} {shown(name, value)}"
    return ReadingVerdict(requirement=one.text, outcome="met" if is_met else "MISSED", why=why)


def _unnumbered(name: str) -> list[str]:
    match = _GPU.fullmatch(name)
    return [] if match is None else [match[1]]
