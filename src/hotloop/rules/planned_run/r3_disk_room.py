"""The disk has little room for the checkpoints of a run.

Looks at: the bytes free where the run folder would be, and what the checkpoints of the planned run
    need.
Says so when: before a run, the checkpoints that it keeps do not fit or cannot be written (critical:
    hotloop train would refuse); or less than 10 GiB are free, a note.
Stays silent when: there is room.
Remedy: free some space, name another folder with --out, or keep fewer checkpoints.
Numbers: nothing.
Seen: tests/diagnosis/test_planned_settings.py.
Source: hotloop
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, PlannedRun, Remedy, Rule, option

if TYPE_CHECKING:
    from hotloop.core.case.planned_run import RunSettings

__all__ = ["RULE"]

LITTLE = 10 << 30  # bytes: some checkpoints of a 100 M parameter model with its optimizer


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Compare the free space with the need of the run, else with that of a few checkpoints."""
    if planned.settings is not None:
        return _refused(planned, planned.settings)
    if planned.free_bytes >= LITTLE:
        return None
    return Finding(
        claim=f"{bytes_(planned.free_bytes)} are free at {planned.folder}: checkpoints may not fit",
        severity="note",
        remedies=[option("free some space, or put runs elsewhere: --out")],
    )


def _refused(planned: PlannedRun, run: RunSettings) -> Finding | None:
    why = run.unwritable
    if planned.free_bytes < run.needed_bytes:
        why = (
            f"{run.keep + 2} checkpoints of {bytes_(run.checkpoint_bytes)} need "
            f"{bytes_(run.needed_bytes)}, and {bytes_(planned.free_bytes)} are free"
        )
    if why is None:
        return None
    return Finding(
        claim=f"{why}: hotloop train will refuse",
        severity="critical",
        remedies=[
            option("free some space, or name another folder with --out"),
            Remedy(text="lower training.keep"),
        ],
    )


RULE = Rule(
    title="The disk is nearly full",
    before_run=judge,
    kind="planning",
)
