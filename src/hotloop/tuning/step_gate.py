"""Counts the steps of a trial and rests after each block until the parent requests the next.

JSON lines go over a socket that the process inherits. The parent sends the number of steps; the
trial answers with their seconds after the last one, and rests until the next line. Meanwhile
another trial runs, and the parent has put the processes of this one to sleep.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from hotloop.machine.kept_memory import keep_memory
from hotloop.tuning.suspend import children_asleep, wake

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

__all__ = ["Gate", "Ungated"]


class Ungated:
    """Counts the steps of a rank above 0, which rests while rank 0 does."""

    def __init__(self) -> None:
        self.steps = 0  # made

    def ended(self) -> None:
        """Count a finished step."""
        self.steps += 1


class Gate:
    """Counts the steps of this process.

    `wait` waits for the device; the report at each rest includes the values of `more`. The first
    block is one step, timed from the construction of this object; `saved` returns the seconds that
    a fork did not need until then and another process would. Child processes, such as loader
    workers, sleep between blocks, as they would work ahead.
    """

    def __init__(
        self,
        line: socket.socket,
        *,
        wait: Callable[[], None],
        more: Callable[[], Mapping[str, Any]],
        saved: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._saved = saved
        self._line, self._lines = line, line.makefile("r")
        self._wait, self._more, self._clock = wait, more, clock
        self._process = os.getpid()
        self._keeps_memory = False
        self.steps = 0  # made
        self._wanted, self._began, self._first = 1, clock(), 0

    def ended(self) -> None:
        """Count a finished step; rest if it is the last of its block."""
        self.steps += 1
        if self.steps == self._first + self._wanted and os.getpid() == self._process:
            self._rest()

    def over(self, why: str, *, outcome: str = "over") -> None:
        """Report that there will be no more steps, and why; does not return."""
        if os.getpid() == self._process:
            self._say({"over": why, "outcome": outcome, "made": self.steps - self._first})
        os._exit(0)

    def _rest(self) -> None:
        self._wait()
        seconds = self._clock() - self._began + (0.0 if self._first else self._saved())
        asleep = children_asleep()
        self._say({"seconds": seconds, "made": self.steps - self._first})
        line = self._lines.readline()
        if not line:  # the parent is gone
            os._exit(0)
        request = json.loads(line)
        if request.get("keep_memory") and not self._keeps_memory:
            self._keeps_memory = keep_memory()
        self._wanted, self._first = int(request["steps"]), self.steps
        wake(asleep)
        self._began = self._clock()

    def _say(self, what: dict[str, Any]) -> None:
        line = {**what, "at": self.steps, "pid": self._process, **self._more()}
        try:
            self._line.sendall(json.dumps(line).encode() + b"\n")
        except OSError:  # the parent is gone
            os._exit(0)
