"""Starts a monitor that outlives the terminal and ends with the watched run or process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from hotloop.core.errors import WriteError
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["start"]

PATIENCE = 20.0  # seconds until its file must exist


def start(
    arguments: Sequence[str],
    output: Path,
    *,
    now: Callable[[], float] = clock,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Start `hotloop monitor` with `arguments` in a session of its own; return its process id.

    Returns after it has written `output`, so that its errors are raised here. Raises WriteError if
    it ends before, or does not write. `now` and `wait` are seams.
    """
    before = _stamp(output)
    child = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "monitor", "-q", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        | getattr(subprocess, "DETACHED_PROCESS", 0),
    )
    until = now() + PATIENCE
    while _stamp(output) == before:
        code = child.poll()
        if code is not None and _stamp(output) == before:
            raise WriteError(
                f"the monitor in the background ended at once with {code} and wrote no {output}: "
                "the same command without --background says why"
            )
        if now() > until:
            child.terminate()
            child.wait()
            raise WriteError(f"the monitor in the background wrote no {output} in {PATIENCE:g} s")
        wait(0.05)
    child.returncode = child.poll() or 0  # avoids Popen's warning about a running child at exit
    return child.pid


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return inode and modification time of a file, which change with it; None if it is absent."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns
