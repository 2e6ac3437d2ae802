"""The disk has little room for the checkpoints of a run.

Looks at: the bytes free where the run folder would be, and what the checkpoints of the planned run
    need.
Says so when: before a run, the checkpoints that it keeps do not fit or cannot be written (critical:
    hotloop train would refuse); or less than 10 GiB are free, a note.
Stays silent when: there is room.
Remedy: free some space, name another folder with --out, or keep fewer checkpoints.
Numbers: nothing.
Seen: tests/diagnosis/checks/test_settings.py.
Source: hotloop
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R3",
    name="disk_room",
    title="The disk is nearly full",
    page=__doc__ or "",
    kind="planning",
)
