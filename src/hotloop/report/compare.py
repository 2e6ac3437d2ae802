"""Compare two runs: their differences, which one is faster, and the figures of both as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.codec import to_json
from hotloop.report.figures import figures
from hotloop.report.markup import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.report.facts import Facts

__all__ = [
    "SCHEMA",
    "ComparisonVerdict",
    "Difference",
    "differences",
    "losses_in_words",
    "speed",
    "summary",
    "why_losses_unlike",
    "why_unlike",
]

SCHEMA = 1  # of the summary; history: 1 (2026-11) first
# Model settings that change how the same work is done; all other ones change the work itself.
HOW = ("model.attention",)
# Settings that decide which characters a validation loss covers.
VALIDATED = ("objective", "model.context", "training.eval_batches", "data.validation_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between two runs."""

    kind: str  # setting, plan, in effect, data, hardware, version
    key: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonVerdict:
    """Which run is faster, or None if that cannot be told; `why` always gives the reason."""

    faster: str | None  # "A" or "B"
    why: str

    @property
    def shown(self) -> str:
        """The answer in two or three words."""
        return f"{self.faster} is faster" if self.faster else "cannot be told"


def differences(a: Facts, b: Facts) -> list[Difference]:
    """Return the differences between two runs, by kind."""
    kinds = {
        "setting": (a.settings, b.settings, UNKNOWN),
        "plan": (_plan(a), _plan(b), "off"),
        "in effect": (_words(a, b), _words(b, a), UNKNOWN),
        "data": (a.data, b.data, UNKNOWN),
        "hardware": (_hardware(a), _hardware(b), UNKNOWN),
        "version": (_versions(a), _versions(b), UNKNOWN),
    }
    return [
        Difference(kind=kind, key=key, a=mine.get(key, missing), b=theirs.get(key, missing))
        for kind, (mine, theirs, missing) in kinds.items()
        for key in dict.fromkeys([*mine, *theirs])
        if mine.get(key) != theirs.get(key)
    ]


def why_unlike(a: Facts, b: Facts) -> str | None:
    """Return why the speeds of two runs must not be compared, or None if they may be."""
    if a.hardware is None or b.hardware is None:
        return "the hardware of a run is unknown"
    unlike = [d for d in differences(a, b) if d.kind in ("hardware", "version")]
    if unlike:
        return "hardware or versions differ: " + _listed(unlike)
    work = [d for d in differences(a, b) if d.kind == "setting" and _changes_work(d.key)]
    if a.recipe != b.recipe:
        return f"the recipes differ: {a.recipe} and {b.recipe}"
    return "a token is not the same work: " + _listed(work) if work else None


def speed(a: Facts, b: Facts) -> ComparisonVerdict:
    """Say which of two runs is faster by tokens per second, or why that cannot be told.

    It cannot be told if hardware, versions or work differ, if readings are unsteady, or if the
    quartiles overlap.
    """
    if why := why_unlike(a, b):
        return ComparisonVerdict(faster=None, why=why)
    readings = []
    for name, run in (("A", a), ("B", b)):
        if run.throughput is None:
            return ComparisonVerdict(faster=None, why=f"{name} has no step after its warm-up")
        if why := run.throughput.why_unstable():
            return ComparisonVerdict(faster=None, why=f"{name} is unsteady: {why}")
        readings.append((name, run.throughput))
    (_, slow), (name, fast) = sorted(readings, key=lambda reading: reading[1].median)
    ratio = fast.median / slow.median
    assert slow.quartiles is not None  # steady readings have them
    assert fast.quartiles is not None
    if fast.quartiles[0] <= slow.quartiles[1]:
        return ComparisonVerdict(
            faster=None,
            why=f"the medians differ by {ratio - 1:.1%}, and the quartiles overlap: that is "
            "within the noise of these readings",
        )
    return ComparisonVerdict(
        faster=name,
        why=f"{ratio:.3g} times the tokens per second (medians of {fast.n:,} and {slow.n:,} "
        "readings, the quartiles do not overlap); one run each",
    )


def why_losses_unlike(a: Facts, b: Facts) -> str | None:
    """Return why two validation losses are not comparable, or None if they are."""
    unlike = [d for d in differences(a, b) if d.kind == "setting" and d.key in VALIDATED]
    unlike += [d for d in differences(a, b) if d.kind == "data" and d.key == "fingerprint"]
    return "the validation losses do not measure the same: " + _listed(unlike) if unlike else None


def losses_in_words(a: Facts, b: Facts) -> str:
    """Say which run reached the lower validation loss, or why that cannot be told."""
    if why := why_losses_unlike(a, b):
        return f"cannot be told: {why}."
    if a.best is None or b.best is None:
        return "cannot be told: one of them made no validation."
    low, other = sorted([(a.best[0], "A"), (b.best[0], "B")])
    if low[0] == other[0]:
        return f"both reach {low[0]:.4f}."
    return (
        f"{low[1]} reaches {low[0]:.4f}, {other[0] - low[0]:.2g} below the lowest of {other[1]}. "
        "One run each: how far two seeds lie apart is unknown."
    )


def summary(*runs: Facts) -> dict[str, object]:
    """Return figures and wall time by row; for two runs also differences and the faster one."""
    value: dict[str, object] = {"schema": SCHEMA, "runs": [_summary_of(run) for run in runs]}
    if len(runs) != 2:
        return value
    verdict = speed(*runs)
    differ = [to_json(difference) for difference in differences(*runs)]
    return {**value, "faster": verdict.faster, "why": verdict.why, "differences": differ}


def _summary_of(run: Facts) -> dict[str, object]:
    return {
        "path": str(run.path),
        "status": run.status,
        "figures": {
            figure.name: {"number": figure.number, "unit": figure.unit, "rests_on": figure.rests_on}
            for figure in figures(run)
        },
        "wall": run.wall,
    }


def _changes_work(key: str) -> bool:
    return key == "objective" or (key.startswith("model.") and key not in HOW)


def _listed(unlike: list[Difference], most: int = 4) -> str:
    items = [f"{d.key} ({d.a} and {d.b})" for d in unlike[:most]]
    return ", ".join(items) + (f" and {len(unlike) - most} more" if len(unlike) > most else "")


def _plan(run: Facts) -> dict[str, str]:
    if run.plan is None:
        return {}
    shape = {"micro batch": f"{run.plan.micro_batch}", "accumulation": f"{run.plan.accumulation}"}
    choices = {
        use.id: ", ".join(f"{name}={value}" for name, value in use.choice) or "on"
        for use in run.plan.techniques
    }
    return {**shape, **choices}


def _words(run: Facts, other: Facts) -> dict[str, str]:
    """Return the outcome of each technique that both runs requested."""
    shared = {technique.id for technique in other.techniques}
    return {
        technique.id: technique.word or UNKNOWN
        for technique in run.techniques
        if technique.id in shared
    }


def _hardware(run: Facts) -> dict[str, str]:
    """Return the hardware facts that determine the speed, as text."""
    if run.hardware is None:
        return {}
    names = ("device", "name", "count", "memory_bytes", "cores", "capability")
    known: Mapping[str, object] = {name: getattr(run.hardware, name) for name in names}
    return {name: UNKNOWN if value is None else str(value) for name, value in known.items()}


def _versions(run: Facts) -> dict[str, str]:
    return dict(run.hardware.versions) if run.hardware else {}
