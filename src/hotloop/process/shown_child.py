"""Runs a command whose output appears where this process prints, also in a notebook."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from hotloop.process.standard_streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

__all__ = ["run_shown"]

_DESCRIPTORS = (1, 2)  # of stdout and stderr, which a child inherits


def run_shown(command: Sequence[str]) -> int:
    """Run a command and return its exit code.

    Its output goes to sys.stdout and sys.stderr: by inheritance if they are the streams of this
    process, else line by line, as notebooks replace them. At a KeyboardInterrupt, which the
    child has received as well, it waits for the child to end in order and raises it again; a second
    one kills the child.
    """
    streams = (sys.stdout, sys.stderr)
    kept = [_is_own(stream, at) for stream, at in zip(streams, _DESCRIPTORS, strict=True)]
    out, err = (None if own else subprocess.PIPE for own in kept)
    process = subprocess.Popen(command, stdout=out, stderr=err, text=True, errors="replace")
    threads = [
        threading.Thread(target=_copy, args=(pipe, stream), daemon=True)
        for pipe, stream in ((process.stdout, streams[0]), (process.stderr, streams[1]))
        if pipe is not None
    ]
    for thread in threads:
        thread.start()
    try:
        code = process.wait()
    except KeyboardInterrupt:
        _end(process)
        raise
    finally:
        for thread in threads:
            thread.join()
    return code


def _end(process: subprocess.Popen[str]) -> None:
    say("hotloop: waiting for the command to end in order; interrupt again to kill it")
    try:
        process.wait()
    except KeyboardInterrupt:
        process.kill()
        process.wait()
        raise


def _is_own(stream: TextIO, descriptor: int) -> bool:
    """Whether what is written to the stream goes to that descriptor of this process."""
    try:
        return stream.fileno() == descriptor
    except (AttributeError, OSError, ValueError):  # a notebook's, a StringIO, or closed
        return False


def _copy(pipe: IO[str], stream: TextIO) -> None:
    with pipe:
        for line in pipe:
            stream.write(line)
            stream.flush()
