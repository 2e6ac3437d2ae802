"""The mode in which each outermost module ran: before the updates that it led to, and elsewhere."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.observe.hooks.event_buffer import EventCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["ModeCounts", "modes"]


@dataclass(slots=True)
class ModeCounts:
    """How often an outermost module ran in which mode."""

    updates: int = 0  # updates after a backward pass that its calls with gradients came before
    in_eval: int = 0  # those of them whose calls were all in evaluation mode
    turns: int = 0  # changes between the two from one update to the next
    eval_since: int | None = None  # updates of all optimizers before the last row of such updates
    scored: int = 0  # calls without gradients in evaluations that read a loader of their own
    unset: int = 0  # those of them in training mode

    def add(self, in_eval: bool, updates: int) -> None:
        """Count an update; `updates` were made before it."""
        was = self.eval_since is not None
        self.turns += self.updates > 0 and was != in_eval
        self.updates += 1
        self.in_eval += in_eval
        self.eval_since = (self.eval_since if was else updates) if in_eval else None


def modes(
    marks: Sequence[tuple[int, int, int]],
    unset: Collection[int],
    evaluations: Sequence[tuple[int, int]],
) -> Mapping[int, ModeCounts]:
    """Return the counts by the number of the module.

    `unset` holds the times of calls without gradients in training mode, `evaluations` the starts
    and ends of evaluations that read a loader which feeds no training.
    """
    counts: dict[int, ModeCounts] = defaultdict(ModeCounts)
    called: dict[int, bool] = {}  # since the last update: module -> all calls in evaluation mode
    backward, updates = False, 0
    spans, times = iter(evaluations), frozenset(unset)
    span = next(spans, None)
    for time, code, number in marks:
        while span is not None and time >= span[1]:
            span = next(spans, None)
        if code == EventCode.EVAL and span is not None and time >= span[0]:
            counts[number].scored += 1
            counts[number].unset += time in times
        elif code in (EventCode.FORWARD, EventCode.SILENT) and not backward:
            called[number] = called.get(number, True) and code == EventCode.SILENT
        elif code == EventCode.BACKWARD:
            backward = True
        elif code == EventCode.UPDATE_END:
            for module, in_eval in called.items() if backward else ():
                counts[module].add(in_eval, updates)
            called, backward, updates = {}, False, updates + 1
    return counts
