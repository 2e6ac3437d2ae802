"""The installed Python or torch is outside the range that hotloop is tested with.

Looks at: the versions of Python and torch.
Says so when: before a run, torch is older than 2.9, or Python is not 3.11 to 3.14.
Stays silent when: both are in the range.
Remedy: pip install -U torch, in a new environment.
Numbers: nothing by itself.
Seen: tests/diagnosis/checks/test_machine.py.
Source: pyproject.toml
"""

from __future__ import annotations

from hotloop.rules.base import Rule

__all__ = ["RULE"]


RULE = Rule(
    id="R12",
    name="untested_versions",
    title="Versions that hotloop is not tested with",
    page=__doc__ or "",
    kind="planning",
)
