"""Collects what the hooks saw and when, at the cost of one list append per event.

A mark is one integer, nanoseconds << 11 | number << 5 | code, so that a switch of threads cannot
tear it. The marks are interpreted later (observe/wall/wall_time.py). They are packed into 8 bytes
each; observing ends at LIMIT marks (at 16 marks a step, after 125,000 steps).
"""

from __future__ import annotations

import enum
import threading
import time
from array import array

__all__ = ["BITS", "EventBuffer", "EventCode"]

BITS = 11  # of number and code
NUMBERS = 64  # of loaders, roots or optimizers, from 0; all further ones share the last number
PACK = 16_384  # marks in the list before they are packed: 0.1 ms of packing for about 1,500 steps
LIMIT = 2_000_000  # marks, 16 MB


class EventCode(enum.IntEnum):
    """What a mark means. A span has an opening code; its closing code is one higher."""

    NEXT = 0  # a loader is asked for a batch
    BATCH = 1
    FORWARD = 2  # a call of an outermost module in training mode, gradients recorded
    FORWARD_END = 3
    EVAL = 4  # such a call without gradients
    EVAL_END = 5
    SILENT = 6  # such a call with gradients, in evaluation mode
    SILENT_END = 7
    BACKWARD = 8
    BACKWARD_END = 9
    UPDATE = 10  # an optimizer's step
    UPDATE_END = 11
    SAVE = 12
    SAVE_END = 13
    COMPILE = 14
    COMPILE_END = 15
    OWN = 16  # hotloop's own work
    OWN_END = 17
    ITERATE = 18  # a loader starts an epoch: starts its workers, draws its order
    ITERATE_END = 19
    END = 20  # the script has ended; a point in time, not a span
    EXHAUSTED = 21  # closes NEXT in place of BATCH: the loader had no batch left
    WAIT = 22  # the host waits for a GPU's result
    WAIT_END = 23
    COPY = 24  # a tensor is copied to a GPU
    COPY_END = 25
    QUEUED = 26  # hotloop waits until the GPU has done an older step (probes/run_ahead.py)
    QUEUED_END = 27


class EventBuffer:
    """Collects marks from one thread."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.mark = self.marks.append  # bound once; the hooks call it with a whole mark
        self.thread = threading.get_ident()
        self.started = time.perf_counter_ns()
        self.limit = LIMIT
        self.closed = False  # later marks are dropped
        self._packed = array("q")
        self.unset = array("q")  # times (ns) of calls without gradients in training mode
        self._base = self.started

    def note(self, code: EventCode, number: int = 0, *, at: int | None = None) -> None:
        """Append a mark with the time `at`, in ns, or now; for hooks that are called seldom."""
        if threading.get_ident() == self.thread:
            now = time.perf_counter_ns() if at is None else at
            self.marks.append(now << BITS | min(number, NUMBERS - 1) << 5 | code)

    def span(self, code: EventCode, began: int, ended: int, number: int = 0) -> None:
        """Append the opening and the closing mark of a span that is over; times are in ns."""
        self.note(code, number, at=began)
        self.note(EventCode(code + 1), number, at=ended)

    @property
    def full(self) -> bool:
        """Whether the buffer holds as many marks as it may."""
        return len(self._packed) + len(self.marks) >= self.limit

    def pack(self) -> None:
        """Move the marks into packed memory if there are many; call it between two marks."""
        if len(self.marks) >= PACK:
            self._pack()

    def _pack(self) -> None:
        base = self._base << BITS
        marks = self.marks[:]
        if not self.closed:
            self._packed.extend(mark - base for mark in marks)
        del self.marks[: len(marks)]

    def close(self) -> None:
        """Write the END mark and drop all later marks; the script goes on."""
        if not self.closed:
            self.note(EventCode.END)
            self._pack()
            self.closed = True

    def read(self) -> list[tuple[int, int, int]]:
        """Return all marks as (nanoseconds since the start, code, number), in order."""
        self._pack()
        low = (1 << BITS) - 1
        # Sorted, because some spans are marked only after they have ended.
        in_order = sorted(self._packed, key=lambda mark: mark >> BITS)
        return [(mark >> BITS, mark & 31, (mark & low) >> 5) for mark in in_order]
