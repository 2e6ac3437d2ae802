"""When a script that may be stopped early has been seen enough."""

from __future__ import annotations

import ctypes
import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.observe.hooks.event_buffer import BITS, Code
from hotloop.process.run_script import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Limits", "has_evaluated", "is_steady", "raise_in"]

_SECONDS, _STEPS, _DRIFT = 3.0, 40, 0.10  # of steady steps; half against whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When observing ends the script early; `full` never does."""

    steps: int | None = None  # optimizer steps
    seconds: float | None = 120.0  # since the first batch or forward pass
    full: bool = False
    probing: bool = True  # look into models and batches as well


def is_steady(marks: Sequence[int]) -> bool:
    """Whether the last steps took as long as those before them."""
    ends = [mark >> BITS for mark in marks[-8_000:] if mark & 31 == Code.UPDATE_END]
    if len(ends) < _STEPS or (ends[-1] - ends[0]) / 1e9 < _SECONDS:
        return False
    each = [end - begin for begin, end in itertools.pairwise(ends)]
    whole, first = statistics.median(each), statistics.median(each[: len(each) // 2])
    return abs(first - whole) <= _DRIFT * whole


def has_evaluated(marks: Sequence[int]) -> bool:
    """Whether a forward pass that nobody learns from is among the last marks."""
    return any(mark & 31 in (Code.EVAL, Code.SILENT) for mark in marks[-20_000:])


def raise_in(thread: int) -> None:
    """Have a thread raise Stopped as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))
