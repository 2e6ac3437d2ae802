"""Compares two results of one ladder; refuses different machines, versions or settings.

The two were measured at separate times, so that a difference counts only beyond what equal runs
and the load of the machine explain (`core/two_runs.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hotloop.bench.metrics import METRICS
from hotloop.bench.result import read
from hotloop.core.errors import ConfigError
from hotloop.core.fail_on import ConditionVerdict
from hotloop.core.measurement import Measurement
from hotloop.core.storage.files import read_json
from hotloop.core.two_runs import (
    Change,
    MachineDrift,
    change_of_steps,
    change_of_values,
    load_bound,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.fail_on import FailCondition, Worse

__all__ = ["FIGURES", "LadderComparison", "Ratio", "compare_files", "ratios", "unlike"]

_MEASURED: Final = ("measured", "versions")  # of hardware: judged apart
_FACTS: Final = ("data", "threads")
_OURS: Final = "hotloop"  # its version may differ, as results of two versions are compared
_RATES: Final = ("it_per_s", "samples_per_s", "tokens_per_s", "targets_per_s")
FIGURES: Final[dict[str, Worse]] = {  # that --fail-on takes
    **dict.fromkeys(_RATES, "less"),
    "vram": "more",
    "ram": "more",
    "start_s": "more",
}


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
    change: Change = field(default_factory=Change)  # of the cost of a token, B over A

    @property
    def verdict(self) -> str:
        """Return whether B is FASTER, SLOWER or the SAME, or UNKNOWN."""
        return self.change.verdict()

    @property
    def ratio(self) -> float | None:
        """Return B over A; the two were measured in different runs."""
        return self.b / self.a if self.a and self.b else None

    @property
    def of_factors(self) -> float | None:
        """Return B over A of the factors, in which a change in machine speed cancels out."""
        return self.factor_b / self.factor_a if self.factor_a and self.factor_b else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderComparison:
    """Two results of one ladder."""

    rungs: Sequence[Ratio]
    conditions: Sequence[ConditionVerdict] = ()


def compare_files(a: Path, b: Path, conditions: Sequence[FailCondition] = ()) -> LadderComparison:
    """Return the rungs of two results, and `conditions` judged on the rung that targets apply to.

    Raises ConfigError with the differences between machines, versions or settings.
    """
    one, two = (read(read_json(path), place=str(path)) for path in (a, b))
    if differ := list(unlike(one, two)):
        raise ConfigError(
            f"{a} and {b} cannot be compared, they differ in:\n  "
            + "\n  ".join(differ)
            + "\nmeasure both on one machine with the same versions and settings"
        )
    return LadderComparison(
        rungs=ratios(one, two),
        conditions=[_judged(condition, one, two) for condition in conditions],
    )


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
    drift = _drift(a, b)
    ids = dict.fromkeys([*left, *right])
    return [_ratio(id, left.get(id), right.get(id), drift) for id in ids]


def _drift(a: Mapping[str, Any], b: Mapping[str, Any]) -> MachineDrift:
    """Return how far other processes may have slowed either result."""
    loads = [load_bound(x.get("busy_cores"), x["hardware"].get("cores")) for x in (a, b)]
    return MachineDrift(up=loads[1], down=loads[0])


def _change(name: str, a: Mapping[str, Any], b: Mapping[str, Any], drift: MachineDrift) -> Change:
    """Return the change of a figure's cost between two measured rows."""
    old, new = (row["figures"].get(name) for row in (a, b))
    if not old or not new:
        where = " and ".join(where for where, value in (("A", old), ("B", new)) if not value)
        return Change(why=f"{name} is not known in {where}")
    if name not in _RATES:
        return change_of_values([old], new, drift=drift if name == "start_s" else MachineDrift())
    steps = [Measurement.from_json(row.get("step"), place=f"{row['id']}: step") for row in (a, b)]
    times = [dict(enumerate(step.readings)) for step in steps]
    change = change_of_steps(times[:1], times[1], drift=drift)
    return change.over(old * steps[0].median / (new * steps[1].median))  # what a step holds


def _judged(
    condition: FailCondition, a: Mapping[str, Any], b: Mapping[str, Any]
) -> ConditionVerdict:
    """Judge a condition on the rung that both results judge."""
    id, name = str(a.get("judged")), condition.name
    rows = [{row["id"]: row for row in x["rows"]}.get(id, {}) for x in (a, b)]
    missing = [where for where, row in zip("AB", rows, strict=True) if not _is_measured(row)]
    change = Change(why=f"the rung {id} was not measured in {' and '.join(missing)}")
    if not missing:
        change = _change(name, rows[0], rows[1], _drift(a, b))
    outcome, why = condition.outcome(change), f"cannot be told: {change.why}"
    if change.why is None:
        old, new = (METRICS[name].shown(row["figures"][name]) for row in rows)
        why = f"{new} in B, {old} in A: {change.shown(condition.worse)} (rung {id})"
        if outcome == "UNKNOWN":
            why = f"cannot be told: {why}; {_remedy(change)}"
    return ConditionVerdict(condition=condition.text, outcome=outcome, why=why)


def _remedy(change: Change) -> str:
    if change.widest == "machine":
        return "other processes were busy; measure both again without them"
    if change.widest == "steps":
        return "the rounds differ most; measure more: --rounds"
    return "equal runs may differ so much"


def _is_measured(row: Mapping[str, Any]) -> bool:
    return row.get("state") == "measured"


def _ratio(
    id: str, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, drift: MachineDrift
) -> Ratio:
    why = [
        f"not in {name}" if row is None else f"{row.get('state')} in {name}"
        for name, row in (("A", a), ("B", b))
        if row is None or not _is_measured(row)
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
        change=Change() if why else _change("tokens_per_s", rows[0], rows[1], drift),
    )
