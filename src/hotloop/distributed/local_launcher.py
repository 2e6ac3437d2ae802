"""Start the other ranks of this machine from the first one, where there is no torchrun.

They serve to measure a trial and save nothing: all of them end when one of them does, in whatever
way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from hotloop.core.env import inherited
from hotloop.process.supervisor import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Siblings", "end_with_first"]

_GRACE: Final = 5.0  # seconds for the first rank to notice by itself that another one is gone
_TAIL: Final = 8 * 1024  # bytes of stderr that are kept for each rank


class Siblings:
    """Ranks 1 to world - 1."""

    def __init__(
        self, command: Sequence[str], *, world: int, port: int, grace: float = _GRACE
    ) -> None:
        """Start `command` once for each rank, with torchrun's variables and the store's `port`.

        `grace` is a seam.
        """
        self._grace = grace
        self._ended: list[str] = []  # how ranks ended, in the order in which they did
        self._one_has = threading.Event()
        for rank in range(1, world):
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,  # its other end closes with this process
                stderr=subprocess.PIPE,
                env=inherited(
                    RANK=str(rank),
                    LOCAL_RANK=str(rank),
                    WORLD_SIZE=str(world),
                    LOCAL_WORLD_SIZE=str(world),
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(port),
                ),
            )
            threading.Thread(target=self._watch, args=(rank, process), daemon=True).start()

    def how_ended(self) -> str | None:
        """Return how the first rank to end did; None if none ends within the grace period."""
        return self._ended[0] if self._one_has.wait(self._grace) else None

    def _watch(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a rank; then end this process too, if nothing else has ended it."""
        tail = _StderrTail(process)
        code = process.wait()
        tail.join(1.0)  # the rank's own children may hold the pipe
        self._ended.append(f"rank {rank} {_how(code, tail.last)}")
        self._one_has.set()
        time.sleep(2 * self._grace)
        print(self._ended[0], file=sys.stderr, flush=True)
        os._exit(1)


class _StderrTail(threading.Thread):
    """Pass on a rank's stderr and keep the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        assert process.stderr
        self._pipe, self._tail = process.stderr, b""
        self.start()

    def run(self) -> None:
        while chunk := os.read(self._pipe.fileno(), 1 << 16):
            self._tail = (self._tail + chunk)[-_TAIL:]
            sys.stderr.buffer.write(chunk)

    @property
    def last(self) -> str:
        """Return the last line."""
        return self._tail.decode(errors="replace").strip().rpartition("\n")[2]


def _how(code: int, last: str) -> str:
    if code >= 0:
        return f"ended with exit code {code}" + (f": {last:.300}" if last else "")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = "; was memory short?" if name == "SIGKILL" else ""
    return f"was killed by {name}, which hotloop did not send{hint}"


def end_with_first() -> None:
    """Make this rank end when the first one, which started it, ends."""
    die_with_parent()

    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
