"""The disk reads or writes slowly, so checkpoints and data will wait for it.

Looks at: the time to write and read back a file in the cache folder, measured once.
Says so when: before a run, either is below 100 MB/s.
Stays silent when: both are faster, or the disk could not be measured.
Remedy: a local disk for data and runs: --out.
Numbers: nothing.
Seen: tests/diagnosis/test_planned_machine.py.
Source: hotloop; at 100 MB/s a checkpoint of 1 GB takes 10 s.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, PlannedRun, Rule, option

__all__ = ["RULE"]

SLOW = 100e6  # bytes/s: a checkpoint of 1 GB then takes 10 s


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Name the directions that are slow."""
    machine = planned.machine
    if machine is None:
        return None
    known = {"write": machine.disk_write, "read": machine.disk_read}
    slow = {how: rate for how, rate in known.items() if rate is not None and rate < SLOW}
    if not slow:
        return None
    rates = " and ".join(f"{how}s {bytes_(rate)}/s" for how, rate in slow.items())
    size = bytes_(machine.disk_timed_bytes)
    return Finding(
        claim=f"the disk {rates} at {machine.disk} ({size}, measured once)",
        severity="note",
        remedies=[option("a local disk for data and runs: --out")],
    )


RULE = Rule(
    title="The disk is slow",
    before_run=judge,
    kind="machine",
)
