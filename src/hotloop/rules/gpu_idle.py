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

__all__ = ["bounded", "idle_seconds"]

# Rules on what the host does in the loop. Not those on evaluations, saves, logs and the start, on
# work of the GPU (padding, repeated passes) and on copies over the bus.
_DATA: Final = (*range(1, 15), 16, 19, 20, 21, 27, 28, 29)
_HOST: Final = (2, 3, 4, 5, 6, 11, 12, 15, 16, 17, 18, 19, 24, 25)
_OF_THE_HOST: Final = {f"D{n}" for n in _DATA} | {f"H{n}" for n in _HOST}
_ORDER: Final = ("note", "warn", "critical")


def idle_seconds(case: Case, *rows: str) -> float | None:
    """Return the seconds of `rows` in which the GPU had nothing to do; None if it was not read."""
    used = case.readings.get("gpu_utilisation") if case.on_gpu else None
    return (1 - median(used)) * sum(map(case.row, rows)) if used else None


def bounded(case: Case, rule: str, finding: Finding) -> Finding:
    """Return a finding of a rule with no larger cost than the GPU's idle time."""
    idle = idle_seconds(case, *IN_STEP, "evaluate") if rule in _OF_THE_HOST else None
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
