"""Compares two results of one ladder; refuses different machines, versions or settings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.bench.result import read
from hotloop.core.errors import ConfigError
from hotloop.core.storage.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Ratio", "compare_files", "ratios", "unlike"]

_MEASURED: Final = ("measured", "versions")  # of hardware: judged apart
_FACTS: Final = ("data", "threads")
_OURS: Final = "hotloop"  # its version may differ, as results of two versions are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One rung in both results."""

    id: str
    name: str
    a: float | None  # tokens/s
    b: float | None
    factor_a: float | None  # against the lowest rung of its own result
    factor_b: float | None
    why: str | None = None  # why there is no ratio

    @property
    def ratio(self) -> float | None:
        """Return B over A; the two were measured in different runs."""
        return self.b / self.a if self.a and self.b else None

    @property
    def of_factors(self) -> float | None:
        """Return B over A of the factors, in which a change in machine speed cancels out."""
        return self.factor_b / self.factor_a if self.factor_a and self.factor_b else None


def compare_files(a: Path, b: Path) -> list[Ratio]:
    """Return the rungs of two results. Raises ConfigError with their differences."""
    one, two = (read(read_json(path), place=str(path)) for path in (a, b))
    if differ := list(unlike(one, two)):
        raise ConfigError(
            f"{a} and {b} cannot be compared, they differ in:\n  "
            + "\n  ".join(differ)
            + "\nmeasure both on one machine with the same versions and settings"
        )
    return ratios(one, two)


def unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each difference that makes two results incomparable."""
    if a["ladder"] != b["ladder"]:
        yield f"ladder: {a['ladder']} and {b['ladder']}"
    yield from _lines("hardware", *(_but(x["hardware"], *_MEASURED) for x in (a, b)))
    yield from _lines("version", *(_but(x["hardware"]["versions"], _OURS) for x in (a, b)))
    yield from _lines("setting", a["settings"], b["settings"])
    facts = [x.get("facts", {}) for x in (a, b)]
    yield from _lines("fact", *({key: fact.get(key) for key in _FACTS} for fact in facts))


def _but(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _lines(what: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(a.keys() | b.keys()):
        mine, theirs = (json.dumps(x.get(key)) for x in (a, b))
        if mine != theirs:
            yield f"{what} {key}: {mine:.120} and {theirs:.120}"


def ratios(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Ratio]:
    """Return the rungs of both results, in the order of the first."""
    left, right = ({row["id"]: row for row in x["rows"]} for x in (a, b))
    return [_ratio(id, left.get(id), right.get(id)) for id in dict.fromkeys([*left, *right])]


def _ratio(id: str, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> Ratio:
    why = [
        f"not in {name}" if row is None else f"{row.get('state')} in {name}"
        for name, row in (("A", a), ("B", b))
        if row is None or row.get("state") != "measured"
    ]
    rows = [row or {} for row in (a, b)]
    tokens = [row.get("figures", {}).get("tokens_per_s") for row in rows]
    factors = [(row.get("against_before") or {}).get("factor") for row in rows]
    return Ratio(
        id=id,
        name=str(rows[0].get("name") or rows[1].get("name") or id),
        a=tokens[0],
        b=tokens[1],
        factor_a=factors[0],
        factor_b=factors[1],
        why=", ".join(why) or None,
    )
