"""The host has little memory left for a run.

Looks at: the host memory that is free for this process, its container's limit included.
Says so when: before a run, less than 2 GiB are free.
Stays silent when: there is more.
Remedy: end what else runs, or use fewer loader processes.
Numbers: nothing.
Seen: tests/diagnosis/checks/test_machine.py.
Source: hotloop; torch and its libraries take about a quarter of the 2 GiB.
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R4",
    name="little_memory",
    title="The host has little memory left",
    page=__doc__ or "",
    kind="planning",
)
