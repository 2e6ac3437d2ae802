"""Bounds what the host's time costs on a GPU (docs/decisions/0027).

While the host works or waits, the GPU does what it must do anyway: nothing that the host does in
the loop costs more than the time in which the GPU has nothing to do.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from hotloop.core.case.case import IN_STEP
from hotloop.core.finding import by_share

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import Finding
    from hotloop.rules.base import Rule

__all__ = ["bounded", "idle_seconds"]

_ORDER: Final = ("note", "warn", "critical")


def idle_seconds(case: Case, *rows: str) -> float | None:
    """Return the seconds of `rows` in which the GPU had nothing to do; None if it was not read."""
    used = case.readings.get("gpu_utilisation") if case.on_gpu else None
    return (1 - median(used)) * sum(map(case.row, rows)) if used else None


def bounded(case: Case, rule: Rule, finding: Finding) -> Finding:
    """Return a finding of a rule; one on the host costs no more than the GPU's idle time."""
    idle = idle_seconds(case, *IN_STEP, "evaluate") if rule.by_host else None
    if idle is None or finding.share is None or finding.share <= case.part(idle):
        return finding
    share = case.part(idle)
    said = f"idle for {share:.0%} of the time: what the host does cannot cost more"
    return replace(
        finding,
        share=share,
        saves=case.per_step(idle),
        ceiling=case.ceiling_without(idle),
        severity=min(finding.severity, by_share(share), key=_ORDER.index),
        evidence={**finding.evidence, "the GPU": said},
    )
