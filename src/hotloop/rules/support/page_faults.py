"""What page faults cost that come from memory which is given back and taken again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.case.case import Case

__all__ = ["returned_memory"]


def returned_memory(case: Case) -> float:
    """Return the share of a step's time that its page faults take; 0 if it is not known."""
    if case.process.page_faults is None or case.step_time is None:
        return 0.0
    spent = case.process.page_faults * case.process.fault_seconds
    return min(1.0, spent / case.step_time.median)
