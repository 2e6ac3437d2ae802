"""Controls a trial in its own process, which makes a block of steps on request and else sleeps."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.core.env import inherited
from hotloop.process import child
from hotloop.process.supervisor import memory_of
from hotloop.tuning.suspend import descendants, put_to_sleep, wake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.process.fork_server import ForkServer

__all__ = ["TrialEnded", "TrialProcess", "TrialReport", "fork_server"]

_LOOK: Final = 0.1  # seconds between two checks that the process is alive
_LONGEST: Final = 24 * 3600.0  # seconds of a whole trial; each block has its own limit
# What each script of PyTorch imports; an optimizer brings the last one (torch 2.13).
_IMPORTED: Final = ("numpy", "torch", "torch._dynamo")
_LINE: Final = 64 * 1024**2  # bytes: a longer answer is garbage


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """The report of a trial after a block."""

    seconds: float  # of the block
    made: int  # steps of the block
    at: int  # steps since the start
    more: Mapping[str, Any]  # the whole report, without the fields above


@contextlib.contextmanager
def fork_server(
    environment: Mapping[str, str], *, cwd: Path | None = None
) -> Iterator[ForkServer | None]:
    """Yield a server for trials, which has imported PyTorch; None where none can be forked.

    `environment` is added to that of this process, as for a trial.
    """
    if sys.platform != "linux":
        yield None
        return
    from hotloop.process.fork_server import ForkServer

    with contextlib.closing(ForkServer(_IMPORTED, inherited(**environment), cwd=cwd)) as server:
        yield server


class TrialEnded(Exception):  # noqa: N818 - an outcome, not an error
    """A trial makes no more steps. `outcome` is a word of process/child.py or "over"."""

    def __init__(self, outcome: str, reason: str, *, at: int = 0) -> None:
        super().__init__(f"{outcome}: {reason}")
        self.outcome, self.reason = outcome, reason
        self.at = at  # steps made in all; 0 if not reported


class TrialProcess:
    """One trial, for use in a `with`. It starts at once; `first` waits for its first step."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        memory: int | None = None,
        output: int = 64 * 1024**2,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        server: ForkServer | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start `command(channel descriptor)`; `memory` and `output` are limits in bytes.

        A `server` forks it where it can.
        """
        ours, theirs = socket.socketpair()
        self._socket, self._clock, self._began = ours, clock, clock()
        limits = child.ProcessLimits(seconds=_LONGEST, memory=memory, output=output)
        with theirs:
            self._running = child.Running(
                command(theirs.fileno()),
                limits=limits,
                cwd=cwd,
                environment=environment,
                channel=theirs.fileno(),
                server=server,
            )
        self._text = b""
        self._outcome: child.Outcome | None = None
        self._pid: int | None = None
        self._keeps_memory = False
        self._asleep: list[psutil.Process] = []
        self._peak = 0  # resident bytes, shared pages counted by each process
        self._share = 1.0  # of them that are left where shared pages count once
        self._shared_by = 1  # processes
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()

    def __enter__(self) -> TrialProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def first(self, *, seconds: float) -> TrialReport:
        """Wait for the end of the first step; raise TrialEnded if the trial ends."""
        report = self._answer(seconds, "it had not made its first step")
        self._sleep()
        return report

    def block(self, steps: int, *, seconds: float) -> TrialReport:
        """Have the trial make `steps` steps; raise TrialEnded if it does not within `seconds`."""
        self._wake()
        request = json.dumps({"steps": steps, "keep_memory": self._keeps_memory})
        try:
            self._socket.sendall(request.encode() + b"\n")
        except OSError:
            raise self._ended() from None
        report = self._answer(seconds, f"{steps} steps were not over")
        self._sleep()
        return report

    def keep_memory(self) -> None:
        """Have the trial keep memory that is freed after its first step."""
        self._keeps_memory = True

    @property
    def peak_bytes(self) -> int:
        """Return the most memory of all its processes, where pages that they share count once."""
        return int(self._peak * self._share)

    @property
    def has_workers(self) -> bool:
        """Whether it has child processes, which sleep now."""
        return len(self._asleep) > 1

    @property
    def stderr(self) -> str:
        """Return the end of what it printed on stderr; "" until it is closed."""
        return "" if self._outcome is None else self._outcome.stderr

    def close(self) -> None:
        """End the trial with all its processes, and wait until they are gone."""
        self._running.stop()
        self._waiting.join()
        self._socket.close()

    def _wait(self) -> None:
        def beat(sign: child.Beat) -> None:
            self._peak = max(self._peak, sign.rss_bytes)

        self._outcome = self._running.wait(beat)

    def _answer(self, seconds: float, what: str) -> TrialReport:
        deadline = self._clock() + seconds
        while (line := self._line()) is None:
            if not self._waiting.is_alive() and not self._readable(0.0):
                raise self._ended()
            if self._clock() > deadline:
                self.close()
                raise TrialEnded("timeout", f"{what} within {seconds:.0f} s")
        try:
            answer = json.loads(line)
            report = TrialReport(
                seconds=float(answer.pop("seconds", 0.0)),
                made=int(answer.pop("made")),
                at=int(answer.pop("at")),
                more=answer,
            )
            self._pid = int(answer["pid"])
            if "over" not in answer and report.made < 1:
                raise ValueError("no step was made")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.close()
            raise TrialEnded("failed", f"it answered garbage ({error}): {line[:80]!r}") from None
        if "over" in answer:
            why = f"{answer['over']} after {report.at} steps"
            raise TrialEnded(answer.get("outcome", "over"), why, at=report.at)
        return report

    def _line(self) -> bytes | None:
        """Return the next whole line, or None if there is none yet."""
        if self._readable(_LOOK):
            with contextlib.suppress(ConnectionResetError):
                self._text += self._socket.recv(1 << 16)
        if len(self._text) > _LINE:
            self._text = self._text[:_LINE] + b"\n"
        line, end, rest = self._text.partition(b"\n")
        if not end:
            return None
        self._text = rest
        return line

    def _readable(self, seconds: float) -> bool:
        if not wait([self._socket], seconds):  # works with any number of open files
            return False
        with contextlib.suppress(OSError):
            if self._socket.recv(1, socket.MSG_PEEK):
                return True
        time.sleep(min(seconds, _LOOK))  # the other end is closed, so `wait` returns at once
        return False

    def _ended(self) -> TrialEnded:
        self._waiting.join()
        outcome = self._outcome
        assert outcome is not None
        if outcome.status == "ok":
            return TrialEnded("failed", "it ended before it had made its steps")
        last_line = outcome.stderr.strip().rpartition("\n")[2]
        reason = outcome.reason or "unknown"
        reason += "" if last_line in reason else f": {last_line:.200}"
        return TrialEnded(outcome.status, reason)

    def _sleep(self) -> None:
        """Put all processes of the trial to sleep, as loader workers would work ahead."""
        assert self._pid is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self._pid)
            # The trial reported the pid; trust only a descendant.
            if os.getpid() in (above.pid for above in top.parents()):
                tree = [top, *descendants(top)]
                self._asleep = put_to_sleep(tree)
                resident = sum(memory_of(process, "rss") for process in tree)
                self._peak = max(self._peak, resident)
                is_new = len(tree) != self._shared_by  # "pss" takes milliseconds a process
                if is_new and resident and sys.platform == "linux":
                    self._shared_by = len(tree)
                    unshared = sum(memory_of(process, "pss") for process in tree)
                    self._share = min(1.0, unshared / resident)

    def _wake(self) -> None:
        wake(self._asleep)
        self._asleep = []
