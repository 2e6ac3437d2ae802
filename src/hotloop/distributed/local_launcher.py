"""The other ranks of this machine, started by the first one where there is no torchrun.

They are what a trial is measured with, and nothing of theirs is to be saved: all of them end when
one of them does, in whatever way.
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

_GRACE: Final = 5.0  # seconds for the first rank to find out by itself that another one is gone
_TAIL: Final = 8 * 1024  # bytes of stderr that are kept of each


class Siblings:
    """Ranks 1 to world - 1."""

    def __init__(
        self, command: Sequence[str], *, world: int, port: int, grace: float = _GRACE
    ) -> None:
        """Start `command` once for each, with torchrun's variables; `port` is the store's.

        `grace` is a seam.
        """
        self._grace = grace
        self._ended: list[str] = []  # how they did, the first one first
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
        """Return how the first of them ended that did, None where all go on; waits a little."""
        return self._ended[0] if self._one_has.wait(self._grace) else None

    def _watch(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Wait for its end; then this process ends too, if nothing else has ended it."""
        words = _Words(process)
        code = process.wait()
        words.join(1.0)  # its own children may hold the pipe
        self._ended.append(f"rank {rank} {_how(code, words.last)}")
        self._one_has.set()
        time.sleep(2 * self._grace)
        print(self._ended[0], file=sys.stderr, flush=True)
        os._exit(1)


class _Words(threading.Thread):
    """Passes on what a rank says on stderr, and keeps the end of it."""

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
        """Return its last line."""
        return self._tail.decode(errors="replace").strip().rpartition("\n")[2]


def _how(code: int, last: str) -> str:
    if code >= 0:
        return f"ended with exit code {code}" + (f": {last:.300}" if last else "")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = "; was memory short?" if name == "SIGKILL" else ""
    return f"was killed by {name}, which hotloop did not send{hint}"


def end_with_first() -> None:
    """Have this rank end when the first one, which started it, does."""
    die_with_parent()

    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
