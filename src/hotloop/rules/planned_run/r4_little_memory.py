"""The host has little memory left for a run.

Looks at: the host memory that is free for this process, its container's limit included.
Says so when: before a run, less than 2 GiB are free.
Stays silent when: there is more.
Remedy: end what else runs, or use fewer loader processes.
Numbers: nothing.
Seen: tests/diagnosis/test_planned_machine.py.
Source: hotloop; torch and its libraries take about a quarter of the 2 GiB.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, PlannedRun, Rule, option

__all__ = ["RULE"]

LITTLE = 2 << 30  # bytes: torch and its libraries take about a quarter of it


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Look at the free host memory."""
    machine = planned.machine
    if machine is None or machine.free_host_bytes >= LITTLE:
        return None
    total = case.hardware.host_memory_bytes
    of = f" of {bytes_(total)}" if total is not None else ""
    return Finding(
        claim=f"{bytes_(machine.free_host_bytes)}{of} of host memory are free",
        severity="warn",
        remedies=[option("end what else runs, or use fewer workers")],
    )


RULE = Rule(
    title="The host has little memory left",
    before_run=judge,
    kind="machine",
)
