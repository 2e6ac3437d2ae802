"""Keeps what the hooks saw and when, at the cost of one list append each.

A mark is one integer, nanoseconds << 11 | number << 5 | code, so that a thread that is switched in
between can tear nothing. All judgement comes later (observe/wall/wall_time.py). Marks are packed
into 8 bytes each, and observing ends when LIMIT of them are there (16 a step: after 125,000 steps).
"""

from __future__ import annotations

import enum
import threading
import time
from array import array

__all__ = ["BITS", "EventBuffer", "EventCode"]

BITS = 11  # of number and code
NUMBERS = 64  # loaders, roots and optimizers are numbered from 0; the last number is all the rest
PACK = 16_384  # marks in the list before they are packed: 0.1 ms of packing for about 1,500 steps
LIMIT = 2_000_000  # marks, 16 MB


class EventCode(enum.IntEnum):
    """What a mark means. Spans have an opening and, one above it, a closing code."""

    NEXT = 0  # a loader is asked for a batch
    BATCH = 1
    FORWARD = 2  # outermost module, gradients recorded, in training mode
    FORWARD_END = 3
    EVAL = 4  # the same without gradients
    EVAL_END = 5
    SILENT = 6  # the same with gradients, in evaluation mode
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
    ITERATE = 18  # a loader starts an epoch: its processes, its order
    ITERATE_END = 19
    END = 20  # the script is over; a point
    EXHAUSTED = 21  # closes NEXT where BATCH does not: the loader had no batch left
    WAIT = 22  # the host waits for a card's result
    WAIT_END = 23
    COPY = 24  # a tensor is copied to a card
    COPY_END = 25


class EventBuffer:
    """Collects marks from one thread."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.mark = self.marks.append  # bound once: hooks call it with what `now` and code give
        self.thread = threading.get_ident()
        self.started = time.perf_counter_ns()
        self.limit = LIMIT
        self.closed = False  # what is marked from now on is dropped
        self._packed = array("q")
        self.unset = array("q")  # times (ns) of calls without gradients in training mode
        self._base = self.started

    def note(self, code: EventCode, number: int = 0, *, at: int | None = None) -> None:
        """Append a mark (of now, unless `at` ns); for the hooks that are passed seldom."""
        if threading.get_ident() == self.thread:
            now = time.perf_counter_ns() if at is None else at
            self.marks.append(now << BITS | min(number, NUMBERS - 1) << 5 | code)

    @property
    def full(self) -> bool:
        """Whether no more marks should be collected."""
        return len(self._packed) + len(self.marks) >= self.limit

    def pack(self) -> None:
        """Move the marks into packed memory when there are many; call between two marks."""
        if len(self.marks) >= PACK:
            self._pack()

    def _pack(self) -> None:
        base = self._base << BITS
        marks = self.marks[:]
        if not self.closed:
            self._packed.extend(mark - base for mark in marks)
        del self.marks[: len(marks)]

    def close(self) -> None:
        """End observing here, though the script goes on."""
        if not self.closed:
            self.note(EventCode.END)
            self._pack()
            self.closed = True

    def read(self) -> list[tuple[int, int, int]]:
        """Return all marks as (nanoseconds since the start, code, number), in order."""
        self._pack()
        low = (1 << BITS) - 1
        # Sorted, because spans that are known only when they end are marked late.
        in_order = sorted(self._packed, key=lambda mark: mark >> BITS)
        return [(mark >> BITS, mark & 31, (mark & low) >> 5) for mark in in_order]
