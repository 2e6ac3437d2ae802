"""Runs a script up to its next optimizer step in a copy of its process, to see whether it fails.

The copy is forked where the loop asks for a batch, and continues with a different batch than the
process itself. It ends just before the optimizer's step, or as soon as an exception reaches a
function that was running at the fork, before the script's own handlers see it. Everything that the
copy prints, writes, sends or deletes is discarded.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from hotloop.observe.probes.dataset_trial import can_fork, forked, receive
from hotloop.observe.whatif.without_one_cost import Patches, no_writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["Copy", "why_no_copy"]

LIMIT = 60.0  # seconds after which a copy is killed; it computes on one thread
_ASKED = 64  # how often the loop may ask for another batch before it steps
_NO_FAULTS = (StopIteration, StopAsyncIteration, GeneratorExit)
_MOVES = ("remove", "unlink", "rename", "replace", "rmdir", "mkdir", "truncate", "symlink", "link")


def why_no_copy() -> str | None:
    """Return why the script cannot be tried in a copy of its process, or None."""
    import torch

    if not can_fork():
        return "there is no fork here"
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return "it computes on a GPU, which no copy of a process can use"
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "it computes together with other processes"
    if threading.current_thread() is not threading.main_thread():
        return "the batch is read by a thread of its own"
    return None


class Copy:
    """The handle of a copy inside the copy itself; `begin` returns it only there."""

    def __init__(self, answer: int) -> None:
        self._answer, self._asked = answer, 0

    @classmethod
    def begin(cls) -> Copy | str | None:
        """Fork; return a Copy in the copy.

        In this process return None once the copy has reached its step, or why it did not.
        """
        frame, until = sys._getframe(1), time.monotonic() + LIMIT
        text = forked(
            lambda pipe: _started(pipe, frame),
            lambda pipe: receive(pipe, lambda: max(0.0, until - time.monotonic())),
        )
        if isinstance(text, Copy):  # pragma: no cover - in the copy
            return text
        if text is None:
            return f"a copy of the process had not made a step after {LIMIT:.0f} s"
        verdict: str | None = json.loads(text or '"a copy of the process died"')
        return verdict

    def count_request(self) -> None:  # pragma: no cover
        """Count a further batch request; loops may read ahead or accumulate gradients."""
        self._asked += 1
        if self._asked > _ASKED:
            self.end(None)

    def failed(self, why: str) -> NoReturn:  # pragma: no cover
        """Report why the step cannot be made, and exit."""
        self.end(why)

    def end(self, why: str | None) -> NoReturn:  # pragma: no cover
        """Report and exit without clean-up, because all resources belong to the process itself."""
        with contextlib.suppress(OSError):
            os.write(self._answer, json.dumps(why).encode())
        os._exit(0)


def _started(answer: int, frame: FrameType | None) -> Copy:  # pragma: no cover
    """Isolate a forked process so that it leaves no trace, and watch its running functions."""
    import torch
    from torch.optim import optimizer

    copy = Copy(answer)
    try:
        _mute(answer)
        torch.set_num_threads(1)  # OpenMP's threads did not survive the fork
        optimizer.register_optimizer_step_pre_hook(_stepping(copy))
        _watch(copy, frame)
    except Exception as error:  # noqa: BLE001 - told; the script must not go on twice
        copy.failed(f"no copy of the process can be made: {type(error).__name__}: {error}"[:300])
    return copy


def _stepping(copy: Copy) -> Callable[..., Any]:  # pragma: no cover
    """Return the hook that ends a copy before a step, or after the step's closure if it has one."""

    def hook(optimizer: Any, args: Any, kwargs: Any) -> Any:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            copy.end(None)

        def then_end() -> None:
            closure()
            copy.end(None)

        return (optimizer, then_end), {}

    return hook


def _watch(copy: Copy, frame: FrameType | None) -> None:  # pragma: no cover
    """End the copy when an exception reaches one of the functions that are running now."""

    def seen(frame: FrameType, event: str, about: Any) -> Any:
        if event == "exception" and not issubclass(about[0], _NO_FAULTS):
            message = " ".join(str(about[1]).split())
            where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            copy.failed(f"{about[0].__name__}: {message[:200]} ({where})")
        return seen

    sys.settrace(lambda frame, event, about: None)
    while frame is not None:
        frame.f_trace, frame = seen, frame.f_back


def _mute(answer: int) -> None:  # pragma: no cover
    """Discard everything that this process writes, sends, moves or deletes."""
    import torch
    from torch.utils.data import dataloader

    null, kept = os.open(os.devnull, os.O_RDWR), list[socket.socket]()
    for file in map(int, os.listdir("/proc/self/fd")):
        if file not in (answer, null):
            with contextlib.suppress(OSError):  # the descriptor that the list was read from
                _close_off(file, null, kept)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - where they are not these
    _kept.extend(kept)
    nothing = Patches()
    no_writing(nothing, os.sep)
    for name in _MOVES:
        nothing.put(os, name, lambda *args, **kwargs: None)
    nothing.put(torch, "save", lambda *args, **kwargs: None)

    def shared(self: Any) -> NoReturn:
        del self
        why = "the step reads another loader, whose worker processes a copy cannot ask"
        Copy(answer).failed(why)

    nothing.put(dataloader._MultiProcessingDataLoaderIter, "_next_data", shared)


_kept: list[socket.socket] = []


def _close_off(file: int, null: int, kept: list[socket.socket]) -> None:  # pragma: no cover
    """Replace a writable descriptor by a harmless one."""
    mode, access = os.fstat(file).st_mode, fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
    if stat.S_ISSOCK(mode):
        pair = socket.socketpair()
        kept += pair
        os.dup2(pair[0].fileno(), file)
    elif stat.S_ISREG(mode) and access == os.O_RDWR:
        at, again = os.lseek(file, 0, os.SEEK_CUR), os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
        os.lseek(again, at, os.SEEK_SET)
        os.dup2(again, file)
    elif access != os.O_RDONLY:
        os.dup2(null, file)
