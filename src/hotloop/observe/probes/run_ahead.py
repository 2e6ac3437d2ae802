"""Keeps the host within a few steps of the GPU, and gives the GPU's time to the parts of a step.

A loop that reads nothing from the GPU only queues work: 380 steps of 31 ms took the host 0.5 s on
an H200 (examples/gpu/float32_products.py), and the GPU needed 12 s more. The host's clock would
tell the time of queueing. With a few steps in the queue the GPU is never idle, and the host's wait
for an older step makes its clock that of the GPU.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.wall.wall_time import QUEUED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.case.steps_and_loaders import Stack
    from hotloop.observe.hooks.event_buffer import EventBuffer
    from hotloop.observe.probes.device_waits import Waits

__all__ = ["MOST", "RunAhead", "shared_out"]

MOST = 8  # updates whose work may be queued
_clock = time.perf_counter_ns


class RunAhead:
    """Waits after an update until the GPU has done the update `MOST` before it."""

    def __init__(self, cuda: Any, device: Any, events: EventBuffer, waits: Waits) -> None:
        self._cuda, self._device = cuda, device
        self._events, self._waits = events, waits
        self._queued: deque[Any] = deque()

    def after_update(self) -> None:
        """Record the end of an update, and wait for an older one."""
        if self._cuda.is_current_stream_capturing():  # neither is allowed then
            return
        event = self._queued.popleft() if len(self._queued) > MOST else None
        if event is None:
            event = self._cuda.Event(blocking=True)  # a thread that waits for it sleeps
        else:
            self._wait(event)
        event.record(self._cuda.current_stream(self._device))
        self._queued.append(event)

    def drain(self) -> None:
        """Wait for the last update: hotloop's own work may read from the GPU."""
        if self._queued and not self._cuda.is_current_stream_capturing():
            self._wait(self._queued[-1])

    def _wait(self, event: Any) -> None:
        if event.query():
            return
        began = _clock()
        event.synchronize()
        ended = _clock()
        self._events.span(EventCode.QUEUED, began, ended)
        self._waits.add(ended - began)


def shared_out(
    rows: dict[str, float],
    steps: Sequence[dict[str, float]],
    stacks: Sequence[Stack],
    times: Mapping[str, Sequence[float]],
) -> tuple[Stack, ...]:
    """Give the waits for the GPU's queue to the parts of a step; return the stacks to match.

    `rows` and `steps` are changed. `times` are the seconds of the GPU in each part of some steps:
    while the host waits, the GPU works on these parts in turn. Without them it is a wait as others.
    """
    means = {row: fmean(seconds) for row, seconds in times.items() if seconds}
    whole = sum(means.values())
    parts = {row: mean / whole for row, mean in means.items()} if whole else {"host waits": 1.0}
    before = dict(rows)
    for one in (rows, *steps):
        if queued := one.pop(QUEUED, 0.0):
            for row, part in parts.items():
                one[row] = one.get(row, 0.0) + part * queued
    return tuple(
        replace(stack, seconds=stack.seconds * rows[stack.row] / before[stack.row])
        if stack.row in parts and before.get(stack.row)
        else stack
        for stack in stacks
        if stack.row != QUEUED
    )
