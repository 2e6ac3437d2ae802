"""The interface of a tracker: a sink of points that one process reads from a run folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hotloop.core.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Fact", "OpenSink", "Opening", "Point", "Sink", "need", "refusal"]

Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of a run."""

    name: str  # with its unit, if any: time/step_s
    step: int  # optimizer steps made
    value: float
    at: float  # seconds since 1970, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The description of a run that a tracker gets before the first point."""

    folder: Path  # for trackers that write files of their own
    name: str
    project: str
    facts: Mapping[str, Fact]  # settings and hardware
    id: str | None  # the tracker's id of an existing run; None: create a run
    after: int  # the last step that the existing run has


class Sink(Protocol):
    """A run in a tracker. Its methods raise DeviceError when the tracker refuses or fails."""

    id: str  # the tracker's id of the run
    where: str  # location of the run, for people

    def write(self, points: Sequence[Point]) -> None:
        """Send points in the order of their steps."""

    def take_back(self, after: int) -> bool:
        """Remove all points after a step; return False where this tracker cannot remove points."""

    def close(self, status: str) -> None:
        """Finish with the run's status: complete, stopped, failed, diverged or running."""


OpenSink = Callable[[Opening], Sink]


def need(module: str, *, extra: str) -> Any:
    """Import a module of an optional package. Raises DeviceError with the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DeviceError(
            f"the tracker {extra} needs a package that cannot be imported ({error}): "
            f"pip install 'hotloop[{extra}]'"
        ) from error


def refusal(tracker: str, error: Exception, hint: str) -> DeviceError:
    """Return the error for a refusing tracker: the first line of its message, and a hint."""
    first = str(error).strip().partition("\n")[0]
    return DeviceError(f"{tracker} refused: {first} ({hint})")
