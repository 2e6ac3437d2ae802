"""Standard streams that cannot end a run: text that cannot be written is dropped.

A terminal closes, the reader of a pipe ends, the disk of a log is full, a shell used `2>&-`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Steady", "open_standard_streams", "say", "steady_streams"]

# After any other error the stream may work again: a full disk can be freed.
_GONE = {errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO}


class Steady:
    """A text stream whose `write` and `flush` never raise.

    EIO from a terminal means that it was closed. That counts as SIGHUP if the process handles
    SIGHUP, which the kernel sends only to the foreground processes of that moment. A process that
    ignores SIGHUP (nohup) or runs in the background (disown) goes on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = _quietly(stream.isatty) is True
        self._in_foreground = True
        self._look()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Whether the stream was a terminal when this object was created."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Write text; return its length, also if the text is dropped."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding
            self.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError) as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._failed(error)
        else:
            self._look()

    def settle(self) -> None:
        """Leave no text that would raise when Python flushes its streams at the end."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.mute()

    def mute(self) -> None:
        """Send all further text, also that of other code, to the null device."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
            self._stream.flush()  # the rest of its buffer
        except (OSError, ValueError):  # closed, or without a file descriptor
            self._stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - a stream

    def _look(self) -> None:
        """Record whether this process is in the terminal's foreground; True without a terminal."""
        if self._is_terminal and hasattr(os, "tcgetpgrp"):
            with contextlib.suppress(OSError, ValueError):
                self._in_foreground = os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()

    def _failed(self, error: OSError | ValueError) -> None:
        closed = isinstance(error, OSError) and error.errno == errno.EIO and self._is_terminal
        if isinstance(error, ValueError) or error.errno in _GONE:
            self.mute()
        if closed and self._in_foreground and hasattr(signal, "SIGHUP"):
            self._is_terminal = False
            if callable(signal.getsignal(signal.SIGHUP)):  # else it would kill, or be ignored
                signal.raise_signal(signal.SIGHUP)


def say(text: str) -> None:
    """Print a line on stderr; never raise."""
    stream = Steady(sys.stderr)
    stream.write(f"{text}\n")
    stream.flush()


@contextmanager
def steady_streams(*, stdout: bool) -> Iterator[None]:
    """Make stderr and, if requested, stdout steady inside the block.

    Without `stdout`, a command that prints data ends when its reader does, as it should.
    """
    before = sys.stdout, sys.stderr
    wrapped = [Steady(sys.stderr), *([Steady(sys.stdout)] if stdout else [])]
    sys.stderr = cast("TextIO", wrapped[0])
    if stdout:
        sys.stdout = cast("TextIO", wrapped[1])
    try:
        yield
    finally:
        for stream in wrapped:
            stream.settle()
        sys.stdout, sys.stderr = before


def open_standard_streams() -> None:
    """Open standard streams that a shell has closed on the null device.

    Otherwise a file of the run would get the file descriptor of stderr, and messages with it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free descriptor: this one
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - a stream


def _quietly(call: Callable[[], bool]) -> bool | None:
    try:
        return call()
    except (OSError, ValueError):
        return None
