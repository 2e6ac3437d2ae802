"""Runs one step in torch's sync debug mode, to find waits that no method of a tensor shows.

torch.nonzero, a boolean index and one_hot without a number of classes wait for the GPU in C++.
torch.cuda.set_sync_debug_mode("warn") warns of each such wait (a prototype; collectives are not
covered). The script does not see the warnings. A warning has no duration, so the sampled time of
its line is taken.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import spot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.case.steps_and_loaders import Stack
    from hotloop.observe.hooks.hooks import Hooks
    from hotloop.observe.probes.device_waits import Waits

__all__ = ["Burst"]

AT = 12  # updates after which it begins: kernels are chosen and caches filled
_SYNC = "called a synchronizing CUDA operation"
_PROTOTYPE = "Synchronization debug mode is a prototype"
# Functions that wait (PROBE 4). A boolean index calls nonzero.
_NAMED = re.compile(
    r"\b(nonzero|argwhere|masked_select|unique_consecutive|unique|where|repeat_interleave"
    r"|one_hot|bincount|equal)\b"
)


class Burst:
    """Observes one step. `boundary` is called between steps."""

    def __init__(self, hooks: Hooks, waits: Waits, cuda: Any) -> None:
        self.done = False
        self._hooks, self._waits, self._cuda = hooks, waits, cuda
        self._back: Callable[[], None] | None = None  # restores the warnings
        self._counts: Counter[tuple[tuple[str, int] | None, str]] = Counter()

    @property
    def is_on(self) -> bool:
        """Whether a step is observed now."""
        return self._back is not None

    def boundary(self, updates: int) -> None:
        """Begin after AT updates, and end one step later."""
        if self._back is not None:
            self.end()
        elif not self.done and updates >= AT:
            self.done = True
            if not self._cuda.get_sync_debug_mode():  # else the script uses the mode itself
                self._begin()

    def end(self) -> None:
        """Restore everything, if the burst is under way."""
        if self._back is not None:
            back, self._back = self._back, None
            if self._cuda.is_initialized():  # not in a forked child
                self._cuda.set_sync_debug_mode(0)
            back()

    def syncs(self, stacks: Sequence[Stack], steps: int) -> list[Sync]:
        """Return the waits that torch warned of, with the sampled seconds of their lines."""
        syncs = []
        for (line, row), calls in self._counts.items():
            place = line and SourceLocation(file=line[0], line=line[1])
            seconds = sum(stack.seconds for stack in stacks if place and stack.place == place)
            syncs.append(
                Sync(
                    method=_method(line),
                    place=place,
                    calls=calls * max(1, steps),
                    per_step=calls,
                    seconds=seconds,
                    row=row,
                )
            )
        return syncs

    def _begin(self) -> None:
        """Catch torch's warnings and keep them from the script.

        The list of filters is changed in place: the functions of `warnings`, and `catch_warnings`,
        would make Python forget which of the script's own warnings it has already shown once.
        """
        show_before, filters = warnings.showwarning, cast("list[Any]", warnings.filters)

        def show(message: Any, *args: Any, **kwargs: Any) -> None:
            text = str(message)
            if _SYNC in text:
                self._hooks.quietly(self._note)
            elif _PROTOTYPE not in text:
                show_before(message, *args, **kwargs)

        def back() -> None:
            filters[:] = [entry for entry in filters if entry not in ours]
            if warnings.showwarning is show:
                warnings.showwarning = show_before

        texts = (re.compile(f".*{text}") for text in (_SYNC, _PROTOTYPE))
        ours = [("always", text, Warning, None, 0) for text in texts]
        filters[:0] = ours
        warnings.showwarning = show
        self._back = back
        self._cuda.set_sync_debug_mode(1)

    def _note(self) -> None:
        if not self._waits.inside and not self._waits.is_ours():
            self._counts[spot(), self._waits.row()] += 1


def _method(location: tuple[str, int] | None) -> str:
    line = linecache.getline(*location) if location else ""
    if (match := _NAMED.search(line)) is not None:
        return match[1]
    return "nonzero" if "[" in line else "unknown"
