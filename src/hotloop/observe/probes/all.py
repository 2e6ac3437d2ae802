"""Lists the probes that look closely at a script's first steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.probes.batches import BatchProbe
from hotloop.observe.probes.habits import Habits
from hotloop.observe.probes.models import Models
from hotloop.observe.probes.process_group import ProcessGroupProbe

if TYPE_CHECKING:
    from hotloop.observe.hooks.listener import Probe

__all__ = ["probes_of"]


def probes_of(observer: Any) -> list[Probe]:
    """Return the probes of an observer; batches come first, because models use their repeats."""
    batches = BatchProbe(observer)
    return [batches, Models(observer, batches.again), Habits(observer), ProcessGroupProbe(observer)]
