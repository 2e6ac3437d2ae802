"""The probes that watch a script beside the host; one line each."""

from __future__ import annotations

from typing import Any

from hotloop.observe.probes.batches import BatchProbe
from hotloop.observe.probes.habits import Habits
from hotloop.observe.probes.models import Models
from hotloop.observe.probes.process_group import ProcessGroupProbe

__all__ = ["watchers"]


def watchers(host: Any) -> list[Any]:
    """Return the watchers of a script host. Batches come first: models ask what came again."""
    batches = BatchProbe(host)
    return [batches, Models(host, batches.again), Habits(host), ProcessGroupProbe(host)]
