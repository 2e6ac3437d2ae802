"""Times the calls in which the host waits for a GPU, copies to it, or cleans up on purpose.

The methods of torch.Tensor are replaced by wrappers that pass CPU tensors through. They see item,
tolist, cpu and similar methods; print, max() and `in` call these. Waits that they miss, for shapes
that depend on values, are found by observe/probes/hidden_syncs.py.
"""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.hooks.hooks import unseen
from hotloop.observe.hooks.stack_frames import spot
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["Waits"]

_clock, _me = time.perf_counter_ns, threading.get_ident
READS = (
    "__array__",
    "__bool__",
    "__float__",
    "__format__",
    "__index__",
    "__int__",
    "cpu",
    "item",
    "numpy",
    "tolist",
)
MOVES = ("cuda", "to")  # in either direction
EXPLICIT = ("empty_cache", "ipc_collect", "synchronize")  # of torch.cuda
_BACK = 64  # marks that are searched for the part of the step that a call is in
_ROWS: Mapping[int, str] = {
    EventCode.NEXT: "data wait",
    EventCode.BATCH: "prepare",
    EventCode.FORWARD: "forward",
    EventCode.FORWARD_END: "forward",
    EventCode.EVAL: "evaluate",
    EventCode.EVAL_END: "evaluate",
    EventCode.SILENT: "evaluate",
    EventCode.SILENT_END: "evaluate",
    EventCode.BACKWARD: "backward",
    EventCode.BACKWARD_END: "optimizer",
    EventCode.UPDATE: "optimizer",
    EventCode.UPDATE_END: "after step",
}

_Key = tuple[str, "tuple[str, int] | None", str]  # method, file and line, row


class Waits:
    """Installs these wrappers, and adds up the calls and times."""

    def __init__(self, hooks: Hooks) -> None:
        self._spent = 0  # nanoseconds of waiting in total
        self.inside = False  # in one of these calls: inner calls are part of it
        self._hooks = hooks
        self._totals: dict[_Key, list[int]] = defaultdict(lambda: [0, 0])  # calls, nanoseconds
        self._row = "start"

    @property
    def seconds(self) -> float:
        """Return the seconds of waiting in total."""
        return self._spent / 1e9

    def add(self, spent: int) -> None:
        """Count nanoseconds of waiting that no call of the script's own made."""
        self._spent += spent

    def explicit(self, torch: Any) -> None:
        """Time the calls that clean up or wait on purpose, on any device."""
        for owner, name, label in (
            (gc, "collect", "gc.collect"),
            *((torch.cuda, name, name) for name in EXPLICIT),
        ):
            hook = self._explicit(getattr(owner, name), label, torch.compiler.is_compiling)
            self._hooks.replace(owner, name, unseen(hook))

    def tensors(self, torch: Any) -> None:
        """Time the methods of tensors, once a GPU is in use."""
        plain = (torch.Tensor, torch.nn.Parameter)  # no subclass: it may belong to a tracer
        for name in (*READS, *MOVES):
            make = self._moving if name in MOVES else self._reading
            hook = make(getattr(torch.Tensor, name), name, plain, torch.compiler.is_compiling)
            self._hooks.replace(torch.Tensor, name, unseen(hook))

    def row(self) -> str:
        """Return the row that the main thread is in, by the last mark that shows it."""
        for mark, _ in zip(reversed(self._hooks.events.marks), range(_BACK), strict=False):
            if (row := _ROWS.get(mark & 31)) is not None:
                self._row = row
                break
        return self._row

    def is_ours(self) -> bool:
        """Whether hotloop's own code is running."""
        marks = self._hooks.events.marks
        return bool(marks) and marks[-1] & 31 == EventCode.OWN

    def syncs(self, steps: int) -> list[Sync]:
        """Return the waits, the longest first; `steps` is the number of steps of the run."""
        syncs = [
            Sync(
                method=method,
                place=line and SourceLocation(file=line[0], line=line[1]),
                calls=calls,
                per_step=calls / steps if steps else 0.0,
                seconds=spent / 1e9,
                row=row,
            )
            for (method, line, row), (calls, spent) in self._totals.items()
        ]
        return sorted(syncs, key=lambda sync: -sync.seconds)

    def _passes(self) -> bool:
        return self.inside or _me() != self._hooks.events.thread or self.is_ours()

    def _explicit(
        self, old: Callable[..., Any], name: str, is_compiling: Callable[[], bool]
    ) -> Callable[..., Any]:
        @functools.wraps(old)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._passes():
                return old(*args, **kwargs)
            return self._timed(name, old, args, kwargs, waits=name == "synchronize")

        return call

    def _reading(
        self, old: Any, name: str, plain: tuple[type, ...], is_compiling: Callable[[], bool]
    ) -> Callable[..., Any]:
        label = name.strip("_")

        @functools.wraps(old)
        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not tensor.is_cuda or type(tensor) not in plain or self._passes():
                return old(tensor, *args, **kwargs)
            return self._timed(label, old, (tensor, *args), kwargs, waits=True)

        return read

    def _moving(
        self, old: Any, name: str, plain: tuple[type, ...], is_compiling: Callable[[], bool]
    ) -> Callable[..., Any]:
        @functools.wraps(old)
        def move(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or type(tensor) not in plain or self._passes():
                return old(tensor, *args, **kwargs)
            self.inside, began = True, _clock()
            try:
                moved = old(tensor, *args, **kwargs)
            finally:
                self.inside, ended = False, _clock()
            if moved.is_cuda != tensor.is_cuda:
                self._hooks.quietly(self._moved, began, ended, moved.is_cuda)
            return moved

        return move

    def _moved(self, began: int, ended: int, to_gpu: bool) -> None:
        if to_gpu:
            self._hooks.events.span(EventCode.COPY, began, ended)
        else:
            self._keep(("cpu", spot(), self.row()), began, ended, True)

    def _timed(
        self, name: str, old: Callable[..., Any], args: Any, kwargs: Any, *, waits: bool
    ) -> Any:
        # The place is looked up before the wait: the GPU computes meanwhile.
        key, self.inside, began = (name, spot(), self.row()), True, _clock()
        try:
            return old(*args, **kwargs)
        finally:
            self.inside, ended = False, _clock()
            self._hooks.quietly(self._keep, key, began, ended, waits)

    def _keep(self, key: _Key, began: int, ended: int, waits: bool) -> None:
        totals = self._totals[key]
        totals[0] += 1
        totals[1] += ended - began
        if waits:
            self._spent += ended - began
            self._hooks.events.span(EventCode.WAIT, began, ended)


hide(globals())
