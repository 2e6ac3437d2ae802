"""Opens windows of a few steps in which every operator of a script is recorded."""

from __future__ import annotations

import functools
import sys
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.observe.ledger.python_calls import PythonCalls
from hotloop.observe.ledger.recorder import MOST_OPERATIONS, Recorder
from hotloop.observe.ledger.storages import address_of
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.finding import SourceLocation

__all__ = ["NEVER", "Window", "WindowProbe"]

STEPS = 3  # of a window; the last one shows what the others are still used for
FIRST = 16  # updates before a window: the first steps are slower, and other probes look
FEWEST, LONG = 4, 1.0  # updates and seconds after which it opens earlier
NEVER = sys.maxsize
_MOST = 4  # windows of a run: one for each set of optimizers that is in use
_READS = ("__array__", "__dlpack__", "__reduce_ex__", "data_ptr", "numpy", "tolist")


@dataclass(slots=True)
class Window:
    """A recorded window."""

    recorder: Recorder
    calls: PythonCalls
    optimizers: frozenset[int]  # numbers of those in use
    first: int  # updates before it
    last: int  # updates at its end
    live: frozenset[int] = frozenset()  # operations that matter by themselves
    complete: bool = False
    # Its weights with their storage and version; the storages that were written since.
    versions: list[tuple[weakref.ref[Any], int, int]] = field(default_factory=list)
    written: set[int] = field(default_factory=set)

    def look(self) -> None:
        """Note which weights were written: a target network is, now and then."""
        for reference, storage, version in self.versions:
            weight = reference()
            if weight is not None and weight._version != version:
                self.written.add(storage)


class WindowProbe(Probe):
    """Records a window once the first steps are over, and another where other optimizers run."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self.windows: list[Window] = []
        self.why_not: str | None = None  # why there is no window
        self._open: Window | None = None
        self._base, self._due = 0, FIRST  # updates when the optimizers came into use, and later
        self._began: float | None = None  # seconds, at their first update
        self._places: set[SourceLocation | None] = set()  # where optimizers in use were built
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # owner, name, before, ours
        self._seen: set[int] = set()  # optimizers that have run

    @property
    def is_open(self) -> bool:
        """Whether operators are recorded now."""
        return self._open is not None

    def next_look(self, updates: int) -> int:
        """Return the number of updates at which a window may open, or continues."""
        return updates + 1 if self._open is not None or self._due < NEVER else NEVER

    def on_optimizer_first_step(self, optimizer: Any) -> None:
        """Plan a further window where an optimizer begins that was built in another line."""
        place = next(
            (built.place for built, one in alive(self._observer.optimizers) if one is optimizer),
            None,
        )
        is_new = place is None or place not in self._places
        self._places.add(place)
        if is_new and self._open is None and len(self.windows) < _MOST:
            hooks = self._observer.hooks
            self._base, self._began, self._due = hooks.updates, None, hooks.updates + FIRST
            hooks.wake = min(hooks.wake, hooks.updates + 1)

    def after_step(self, updates: int) -> None:
        """Open a window, note the end of a step, or close the window."""
        window = self._open
        if window is None:
            for one in self.windows:
                one.look()
            if self._is_due(updates) and len(self.windows) < _MOST:
                self._due = NEVER
                self._begin(updates)
            return
        if (updates - window.first) % max(1, len(window.optimizers)) == 0:
            window.recorder.end_step()
        recorder, ends = window.recorder, window.recorder.ends
        # Of long steps, a third one would not fit.
        is_full = len(ends) >= 2 and ends[-1] + ends[0] > MOST_OPERATIONS
        if updates >= window.last or is_full or recorder.overflow or recorder.fault is not None:
            self._end(window)

    def _is_due(self, updates: int) -> bool:
        """Whether a window opens now: earlier where steps are long, or where few are planned."""
        if self._due == NEVER or self._observer.cuda.is_bursting:
            return False
        made, now = updates - self._base, time.perf_counter()
        if self._began is None:
            self._began = now
        if made == 2:
            planned = self._observer.planned.expected(FIRST + STEPS)
            if planned is not None:  # of them, one step stays outside the window
                recorded = STEPS * max(1, len(self._used()))
                early = max(FEWEST, planned - recorded - 1)
                self._due = min(self._due, self._base + early)
        return updates >= self._due or (made >= FEWEST and now - self._began >= LONG)

    def remove(self) -> None:
        """Close a window that is open, because the hooks are being removed."""
        if self._open is not None:
            self._end(self._open)

    def _begin(self, updates: int) -> None:
        self.why_not = self._obstacle()
        if self.why_not is not None:
            return
        hooks = self._observer.hooks
        used = self._used()
        self._seen |= used
        marks = hooks.events.marks
        recorder = Recorder(is_ours=lambda: bool(marks) and marks[-1] & 31 == 16)
        last = updates + STEPS * max(1, len(used))
        calls = PythonCalls(lambda: len(recorder.ends))
        window = Window(recorder=recorder, calls=calls, optimizers=used, first=updates, last=last)
        self._replace_reads(recorder)
        self._replace_compile()
        hooks.differentiated = recorder.differentiate
        hooks.when_down(self)
        recorder.start(self._parameters())
        window.versions = [
            (weakref.ref(weight), address, weight._version)
            for weight in self._parameters()
            if (address := address_of(weight)) is not None
        ]
        calls.start()
        self._open = window
        self.windows.append(window)

    def _used(self) -> frozenset[int]:
        """Return the numbers of the optimizers in use that no window has seen."""
        return frozenset(
            entry.number
            for entry, _ in alive(self._observer.optimizers)
            if entry.number is not None and entry.number not in self._seen
        )

    def _end(self, window: Window) -> None:
        recorder = window.recorder
        window.calls.stop()
        recorder.stop()
        self._open, self._observer.hooks.differentiated = None, None
        self._restore()
        if recorder.fault is not None:
            self.why_not = f"recording failed with {recorder.fault!r}"
        else:
            window.live = frozenset(recorder.live(self._unread()))
            window.complete = len(recorder.ends) >= 2
            if recorder.overflow and not window.complete:
                most = MOST_OPERATIONS // 2
                self.why_not = f"a step has more than {most:,} operators, too many to record"
        recorder.release()

    def _obstacle(self) -> str | None:
        torch = sys.modules["torch"]
        dynamo: Any = sys.modules.get("torch._dynamo.utils")
        if dynamo is not None and dynamo.counters["stats"]["unique_graphs"]:
            return "torch.compile is in use, whose graphs hold no single operators"
        if torch._C._len_torch_dispatch_stack():
            return "the script uses a dispatch mode of its own"
        return None

    def _replace_reads(self, recorder: Recorder) -> None:
        """Note the tensors whose values leave PyTorch."""
        torch = sys.modules["torch"]
        for name in _READS:
            old = getattr(torch.Tensor, name)

            def read(tensor: Any, *args: Any, _old: Any = old, **kwargs: Any) -> Any:
                if recorder.is_on:
                    recorder.read(tensor)
                return _old(tensor, *args, **kwargs)

            read.__name__ = name
            self._replace(torch.Tensor, name, read)

    def _replace_compile(self) -> None:
        """Close the window when torch.compile is called: Dynamo captures nothing under a mode."""
        torch = sys.modules["torch"]
        old = torch.compile

        @functools.wraps(old)
        def compile(*args: Any, **kwargs: Any) -> Any:
            self.remove()
            return old(*args, **kwargs)

        self._replace(torch, "compile", compile)

    def _replace(self, owner: Any, name: str, ours: Any) -> None:
        self._replaced.append((owner, name, owner.__dict__.get(name), ours))
        setattr(owner, name, ours)

    def _restore(self) -> None:
        for owner, name, before, ours in self._replaced:
            if owner.__dict__.get(name) is not ours:
                continue  # somebody has replaced it since; their function calls ours
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._replaced.clear()

    def _parameters(self) -> Iterator[Any]:
        for _, root in alive(self._observer.roots):
            yield from root.parameters()
            yield from root.buffers()

    def _unread(self) -> list[Any]:
        """Return the gradients of weights that no optimizer updates."""
        held = {
            id(weight)
            for _, optimizer in alive(self._observer.optimizers)
            for group in optimizer.param_groups
            for weight in group["params"]
        }
        if not held:
            return []
        return [
            weight.grad
            for weight in self._parameters()
            if weight.grad is not None and id(weight) not in held
        ]


hide(globals())
