"""The trial's end of the line: counts steps, and rests after each block until it is told to go on.

Lines of JSON go over a socket that the process inherits. The parent says how many steps to make;
the trial answers when they are over, with their seconds, and does nothing until the next line:
meanwhile another trial has the machine, and the parent has put this one's processes to sleep.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from hotloop.tuning.suspend import children_asleep, wake

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

__all__ = ["Gate", "Ungated"]


class Ungated:
    """Counts the steps of a rank that is not the first: it rests as that one has it sleep."""

    def __init__(self) -> None:
        self.steps = 0  # made

    def ended(self) -> None:
        """Note the end of a step."""
        self.steps += 1


class Gate:
    """Counts the steps of this process. `wait` waits for the device, `more` is told at each rest.

    The first block is one step, begun when this is made. What the process has started (workers of
    a loader) sleeps from the end of a block to the beginning of the next: it would work ahead.
    """

    def __init__(
        self,
        line: socket.socket,
        *,
        wait: Callable[[], None],
        more: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._line, self._lines = line, line.makefile("r")
        self._wait, self._more, self._clock = wait, more, clock
        self._process = os.getpid()
        self.steps = 0  # made
        self._wanted, self._began, self._first = 1, clock(), 0

    def ended(self) -> None:
        """Note the end of a step; rest when it is the last of its block."""
        self.steps += 1
        if self.steps == self._first + self._wanted and os.getpid() == self._process:
            self._rest()

    def over(self, why: str, *, outcome: str = "over") -> None:
        """Say that there will be no more steps, and what that is; does not return."""
        if os.getpid() == self._process:
            self._say({"over": why, "outcome": outcome, "made": self.steps - self._first})
        os._exit(0)

    def _rest(self) -> None:
        self._wait()
        seconds = self._clock() - self._began
        asleep = children_asleep()
        self._say({"seconds": seconds, "made": self.steps - self._first})
        told = self._lines.readline()
        if not told:  # the parent is gone
            os._exit(0)
        self._wanted, self._first = int(json.loads(told)["steps"]), self.steps
        wake(asleep)
        self._began = self._clock()

    def _say(self, what: dict[str, Any]) -> None:
        line = {**what, "at": self.steps, "pid": self._process, **self._more()}
        try:
            self._line.sendall(json.dumps(line).encode() + b"\n")
        except OSError:  # the parent is gone
            os._exit(0)
