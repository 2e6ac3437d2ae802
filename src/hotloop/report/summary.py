"""The figures of a report as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.report.compare import differences, speed
from hotloop.report.figures import figures

if TYPE_CHECKING:
    from hotloop.report.facts import Facts

__all__ = ["SCHEMA", "summary"]

SCHEMA = 1  # history: 1 (2026-11) first


def summary(*runs: Facts) -> dict[str, object]:
    """Return figures and wall time by row; for two runs also differences and the faster one."""
    value: dict[str, object] = {"schema": SCHEMA, "runs": [_run(run) for run in runs]}
    if len(runs) != 2:
        return value
    verdict = speed(*runs)
    differ = [{"kind": d.kind, "key": d.key, "a": d.a, "b": d.b} for d in differences(*runs)]
    return {**value, "faster": verdict.faster, "why": verdict.why, "differences": differ}


def _run(run: Facts) -> dict[str, object]:
    return {
        "path": str(run.path),
        "status": run.status,
        "figures": {
            figure.name: {"number": figure.number, "unit": figure.unit, "rests_on": figure.rests_on}
            for figure in figures(run)
        },
        "wall": run.wall,
    }
