"""Freed memory stays with the process."""

from __future__ import annotations

from hotloop.machine.kept_memory import can_keep, give_back_memory, keep_memory, page_faults
from hotloop.observe.experiments.variants import Variant

__all__ = ["KeptMemory"]


class KeptMemory(Variant):
    """glibc keeps what is freed, so that the next step finds it mapped.

    What was kept once is used again after the switch is off, so this is the last change of all.
    """

    is_last = True

    def prepare(self) -> str | None:
        """See whether the switch exists."""
        return None if can_keep() and page_faults() is not None else "malloc is not glibc's"

    def switch_on(self) -> None:
        """Keep it."""
        keep_memory()

    def switch_off(self) -> None:
        """Give it back."""
        give_back_memory()
