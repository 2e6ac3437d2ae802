"""Runs loops by turns: each in a thread or in a process of its own, and all but one asleep."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Blocks", "Elsewhere", "Finished", "NotRun", "Racer", "Reading", "serve"]

Reading = dict[str, float]  # quantity -> value
LOSS = "loss"  # what a parent may ask for instead of a step


class NotRun(Exception):  # noqa: N818 - not an error: the table says why
    """A row cannot be measured here; the text says why."""


class Finished(BaseException):
    """Ends a loop that somebody else owns: no `except Exception` of theirs may keep it."""


@dataclass(slots=True)
class Blocks:
    """Cuts a loop into blocks of steps: the loop calls `pull` as it takes each batch.

    At a border it hands its reading (seconds a step) to `rest`, which comes back when it is the
    loop's turn again.
    """

    size: int
    rest: Callable[[Reading], None]
    taken: int = 0
    _began: tuple[float, float] = (0.0, 0.0)

    def pull(self) -> None:
        """Note that a step begins."""
        if self.taken % self.size == 0:
            wall, cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
            self.rest({"wall": wall / self.size, "cpu": cpu / self.size})
            self._began = time.perf_counter(), time.process_time()
        self.taken += 1


class Racer(threading.Thread):
    """Runs a loop in a thread, a block at a time; everybody else sleeps meanwhile.

    When it is made the loop runs up to its first batch; what it raises there is raised.
    """

    def __init__(self, run: Callable[[Callable[[], None]], object], *, block: int) -> None:
        super().__init__(daemon=True)
        self._run, self._blocks = run, Blocks(block, self._rest)
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._reading: Reading = {}
        self._over = False
        self.error: BaseException | None = None
        self.start()
        self._wait()

    def run(self) -> None:
        """Run the loop to its end, which only `stop` or an error brings."""
        try:
            self._run(self._blocks.pull)
            self.error = RuntimeError("the loop came to its end by itself")
        except Finished:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            self.error = error
        self._done.release()

    def _rest(self, reading: Reading) -> None:
        self._reading = reading
        self._done.release()
        self._go.acquire()
        if self._over:
            raise Finished

    def lap(self) -> Reading:
        """Let it run a block; raise what it raised."""
        self._go.release()
        self._wait()
        return self._reading

    def _wait(self) -> None:
        self._done.acquire()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """End the loop where it rests."""
        self._over = True
        self._go.release()
        self.join()


def serve(run: Callable[[Callable[[], None]], object], loss: Callable[[], float]) -> None:
    """Be the other side of Elsewhere: run a loop in this process, a step for each line read.

    Answers are lines of JSON on stdout; what the loop itself prints goes to stderr.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    def rest(reading: Reading) -> None:
        answer(reading)
        while (asked := sys.stdin.readline().strip()) == LOSS:
            answer(loss())
        if not asked:
            raise Finished

    try:
        run(Blocks(1, rest).pull)
    except (ImportError, NotRun) as error:
        answer({"not run": str(error)})
    except Finished:
        pass


class Elsewhere:
    """A loop in a process of its own, with threads of its own; it sleeps between its steps."""

    def __init__(self, command: Sequence[str], *, threads: int) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        answer = self._answer()
        if "not run" in answer:
            self.stop()
            raise NotRun(answer["not run"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        try:
            print(what, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._ended() from None
        return self._answer()

    def _ended(self) -> RuntimeError:
        """Return what is told of a process that has ended; -9: perhaps for want of memory."""
        with contextlib.suppress(BrokenPipeError), self._process:
            pass
        return RuntimeError(f"{self._process.args} ended with {self._process.returncode}")

    def lap(self) -> Reading:
        """Let it make a step."""
        reading: Reading = self._ask("step")
        return reading

    def loss(self) -> float:
        """Return the loss of its model as it is now."""
        return float(self._ask(LOSS))

    def stop(self) -> None:
        """End it where it rests: with its input closed it is finished."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._process:
            pass
