"""Start the other ranks of this machine from the first one, where there is no torchrun.

They serve to measure a trial and save nothing: all of them end when one of them does, in whatever
way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from hotloop.core.env import inherited
from hotloop.process.child import killed_by
from hotloop.process.supervisor import PipeTail, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Siblings", "end_with_first"]

_GRACE: Final = 5.0  # seconds for the first rank to notice by itself that another one is gone


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
        tail = PipeTail(process.stderr, then=sys.stderr.buffer.write)
        code = process.wait()
        tail.join(1.0)  # the rank's own children may hold the pipe
        last = tail.text.strip().rpartition("\n")[2]
        self._ended.append(f"rank {rank} {_how(code, last)}")
        self._one_has.set()
        time.sleep(2 * self._grace)
        print(self._ended[0], file=sys.stderr, flush=True)
        os._exit(1)


def _how(code: int, last: str) -> str:
    if code >= 0:
        return f"ended with exit code {code}" + (f": {last:.300}" if last else "")
    return f"was {killed_by(-code)}"


def end_with_first() -> None:
    """Make this rank end when the first one, which started it, ends."""
    die_with_parent()

    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
