"""Reads the GPU's own clock on one step in eight, and checks whether the GPU waited for the host.

Events are recorded where calls begin and end, and read some steps later, when they have passed:
nothing here waits. Run-ahead: if the event at the end of a step has already passed when the host
begins the next forward pass, the GPU had no work left.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import EventCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["GpuClock"]

EACH = 8  # steps of which one is sampled
MOST_EVENTS, MOST_PENDING = 64, 4  # of a sample; samples that wait for the GPU
MOST_TIMES = 4000  # of a row; then every second one is dropped
BEHIND = 0.1  # share of a step spent waiting for the GPU: beyond it the GPU was behind
_ROWS: Mapping[int, str] = {
    EventCode.FORWARD: "forward",
    EventCode.BACKWARD: "backward",
    EventCode.UPDATE: "optimizer",
}
_OTHER = (
    EventCode.EVAL,
    EventCode.SILENT,
)  # an evaluation may begin: a training step does not follow

_Sample = list[tuple[int, Any]]  # code, event


class GpuClock:
    """Receives the codes of main-thread calls; `waited` returns the seconds waited so far."""

    def __init__(
        self,
        cuda: Any,
        device: Any,
        *,
        waited: Callable[[], float] = lambda: 0.0,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)  # row -> seconds, of each sample
        self.ahead: list[bool] = []  # of each sample: the GPU finished before the host
        self.device = device
        self._cuda, self._waited, self._now = cuda, waited, now
        self._steps = 0
        self._free: list[Any] = []
        self._sample: _Sample | None = None  # the sample that is being taken
        self._pending: deque[_Sample] = deque()
        self._end_event: Any = None  # the event at the end of the sample, to be queried
        self._began = (0.0, 0.0)  # waited and now, at the start of the sample

    def passed(self, code: int) -> None:
        """Note that a call of this code begins or ends now."""
        ends = code == EventCode.UPDATE_END
        self._steps += ends
        starts = ends and self._sample is None and self._steps % EACH == 0
        if not starts and self._sample is None and self._end_event is None:
            return
        if self._cuda.is_current_stream_capturing():  # neither record nor query is allowed then
            self._sample, self._end_event = None, None
        elif starts:
            self._start()
        elif ends and self._sample is not None:
            self._finish(self._sample)
        elif self._end_event is not None and code % 2 == 0:
            self._ask(code)
        elif self._sample is not None and code & ~1 in _ROWS:
            self._record(code)

    @property
    def starved(self) -> float | None:
        """Return the share of samples in which the GPU finished first; None for fewer than 3."""
        return sum(self.ahead) / len(self.ahead) if len(self.ahead) >= 3 else None

    def _start(self) -> None:
        self._read()
        if len(self._pending) < MOST_PENDING:
            self._sample, self._began = [], (self._waited(), self._now())

    def _finish(self, sample: _Sample) -> None:
        self._record(EventCode.UPDATE_END)
        self._sample = None
        if len(sample) < MOST_EVENTS:
            self._pending.append(sample)
            self._end_event = sample[-1][1]

    def _ask(self, code: int) -> None:
        event, self._end_event = self._end_event, None
        if code in _OTHER:
            return
        waited, began = self._began
        behind = self._waited() - waited > BEHIND * (self._now() - began)
        self.ahead.append(event.query() and not behind)
        if len(self.ahead) >= MOST_TIMES:
            del self.ahead[::2]

    def _record(self, code: int) -> None:
        assert self._sample is not None
        if len(self._sample) < MOST_EVENTS:
            event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
            event.record(self._cuda.current_stream(self.device))
            self._sample.append((code, event))

    def _read(self) -> None:
        """Read the times of the samples that have passed, and reuse their events."""
        while self._pending and self._pending[0][-1][1].query():
            sample = self._pending.popleft()
            for row, seconds in _seconds(sample).items():
                self.times[row].append(seconds)
                if len(self.times[row]) >= MOST_TIMES:
                    del self.times[row][::2]
            self._free += [event for _, event in sample]


def _seconds(sample: _Sample) -> dict[str, float]:
    """Return the seconds between the events that open and close each call, by row."""
    seconds: dict[str, float] = defaultdict(float)
    opened: dict[int, Any] = {}
    for code, event in sample:
        if code % 2 == 0:
            opened[code] = event
        elif code - 1 in opened:
            seconds[_ROWS[code - 1]] += opened.pop(code - 1).elapsed_time(event) / 1e3
    return seconds
