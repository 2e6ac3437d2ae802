"""Holds the result of a ladder, as values and as JSON.

Format history: schema 1 (2026-11); `better_than_own` may be absent in older files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.bench.metrics import METRICS
from hotloop.core.errors import DataError
from hotloop.core.hardware import Hardware

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.agreement import Parity
    from hotloop.core.measurement import Measurement
    from hotloop.core.plan import Plan
    from hotloop.core.trial import Comparison
    from hotloop.recipes.building.ladder import Claim

__all__ = ["OWN", "SCHEMA", "Epoch", "Result", "RungResult", "State", "read"]

SCHEMA: Final = 1
OWN: Final = "own"  # id of the rung that is hotloop's own choice
State = Literal[
    "measured", "blocked", "not needed here", "refused", "failed", "impossible", "not asked for"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A small epoch, forecast from the rung and then run. Times are in seconds."""

    estimated: float
    measured: float | None
    why: str | None = None  # why it was not made
    steps: int = 0
    rows: Mapping[str, float] = field(default_factory=dict)  # wall time of the real epoch, by row

    @property
    def off(self) -> float | None:
        """Return the estimate over the real time, minus 1."""
        return None if not self.measured else self.estimated / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RungResult:
    """One rung."""

    id: str
    name: str
    state: State
    why: str | None = None  # the reason for the state
    plan: Plan | None = None
    program: str = "engine"
    step: Measurement | None = None  # seconds of an optimizer step
    comparison: Comparison | None = None  # with the lowest rung; the lowest with itself again
    figures: Mapping[str, float] = field(default_factory=dict)  # by bench.metrics
    unknown: Mapping[str, str] = field(default_factory=dict)  # figure -> why it is not known
    effects: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    parity: Parity | None = None
    epoch: Epoch | None = None
    below: str | None = None  # name of the rung that it builds on, if that was measured
    over_below: float | None = None  # speed relative to `below`; a ratio of factors of two races
    claims: Sequence[Claim] = ()
    seconds: float = 0.0  # duration of the measurement

    def against(self, claim: Claim) -> str:
        """Return the measured counterpart of a claim, in words."""
        if claim.of == "before" and self.comparison is not None:
            return f"{self.comparison.factor} of before"
        if claim.of == "below" and self.over_below is not None:
            return f"{self.over_below:.2f}x of {self.below}"
        return "not known" if self.is_measured else self.state

    @property
    def is_measured(self) -> bool:
        """Whether it has figures."""
        return self.state == "measured"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        comparison, epoch, parity = self.comparison, self.epoch, self.parity
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "why": self.why,
            "program": self.program,
            "plan": self.plan and self.plan.to_json(),
            "step": self.step and self.step.to_json(),
            "against_before": comparison
            and {
                "verdict": comparison.verdict,
                "why": comparison.why,
                "factor": comparison.ratio and 1 / comparison.ratio,
                "interval": comparison.interval
                and [1 / comparison.interval[1], 1 / comparison.interval[0]],
                "rounds": comparison.n,
            },
            "below": self.below,
            "over_below": self.over_below,
            "figures": dict(self.figures),
            "unknown": dict(self.unknown),
            "effects": {id: list(word_and_how) for id, word_and_how in self.effects.items()},
            "losses": parity and {"kept": parity.kept, "why": parity.why},
            "epoch": epoch
            and {
                "estimated_s": epoch.estimated,
                "measured_s": epoch.measured,
                "off": epoch.off,
                "why": epoch.why,
                "steps": epoch.steps,
                "rows": dict(epoch.rows),
            },
            "claimed": [{"of": c.of, "text": c.text, "source": c.source} for c in self.claims],
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The rungs of a ladder that were reached."""

    ladder: str
    command: Sequence[str]
    date: str
    hardware: Hardware  # with the product rates that were measured
    settings: Mapping[str, Any]  # every key of the recipe
    facts: Mapping[str, str]  # data, model, batch
    rows: Sequence[RungResult]
    judged: str  # id of the rung that targets apply to
    flops_per_token: float | None
    busy_cores: float | None = None  # used by other processes before the bench
    stopped: str | None = None  # why it ended before all rungs were measured

    def row(self, id: str) -> RungResult | None:
        """Return a rung by id."""
        return next((row for row in self.rows if row.id == id), None)

    @property
    def better(self) -> RungResult | None:
        """The fastest engine rung that beats hotloop's own choice, or None.

        A rung beats it if its interval, against the lowest rung, lies entirely below the other.
        """
        own = self.row(OWN)
        if own is None or own.comparison is None or own.comparison.interval is None:
            return None
        least = own.comparison.interval[0]
        faster = [
            (row.comparison.ratio, row)
            for row in self.rows
            if row.program == "engine" and row.comparison is not None
            if row.comparison.ratio and row.comparison.interval is not None
            if row.comparison.interval[1] < least
        ]
        return min(faster, key=lambda pair: pair[0])[1] if faster else None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values under a schema number."""
        return {
            "schema": SCHEMA,
            "ladder": self.ladder,
            "command": list(self.command),
            "date": self.date,
            "hardware": self.hardware.to_json(),
            "settings": dict(self.settings),
            "facts": dict(self.facts),
            "units": {name: entry.what for name, entry in METRICS.items()},
            "flops_per_token": self.flops_per_token,
            "busy_cores": self.busy_cores,
            "judged": self.judged,
            "better_than_own": None if self.better is None else self.better.id,
            "rows": [row.to_json() for row in self.rows],
            "stopped": self.stopped,
        }


def read(raw: object, *, place: str) -> dict[str, Any]:
    """Return the JSON object of `to_json`, checked as far as comparing needs; else DataError."""
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise DataError(f"{place}: expected a bench result of schema {SCHEMA}, got {raw!r:.80}")
    for key, kind in (("ladder", str), ("settings", dict), ("rows", list), ("hardware", dict)):
        if not isinstance(raw.get(key), kind):
            raise DataError(f"{place}: {key} is missing or no {kind.__name__}")
    Hardware.from_json(raw["hardware"], place=f"{place}: hardware")
    for row in raw["rows"]:
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise DataError(f"{place}: a row has no id: {row!r:.80}")
        if not isinstance(row.get("figures"), dict):
            raise DataError(f"{place}: row {row['id']} has no figures")
    return raw
