"""The disk reads or writes slowly, so checkpoints and data will wait for it.

Looks at: the time to write and read back a file in the cache folder, measured once.
Says so when: before a run, either is below 100 MB/s.
Stays silent when: both are faster, or the disk could not be measured.
Remedy: a local disk for data and runs: --out.
Numbers: nothing.
Seen: tests/diagnosis/checks/test_machine.py.
Source: hotloop; at 100 MB/s a checkpoint of 1 GB takes 10 s.
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R5",
    name="slow_disk",
    title="The disk is slow",
    page=__doc__ or "",
    kind="speed",
)
