"""What a tracker is to hotloop: a sink of points that one process feeds from a run folder."""

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

    name: str  # with its unit where it has one: time/step_s
    step: int  # optimizer steps made
    value: float
    at: float  # seconds since 1970, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a tracker is told of a run before the first point."""

    folder: Path  # for trackers that write files of their own
    name: str
    project: str
    facts: Mapping[str, Fact]  # what was asked for, and where it runs
    id: str | None  # the tracker's own name of a run that was begun before; None: a new one
    after: int  # the last step it was given then


class Sink(Protocol):
    """A run in a tracker. Raises DeviceError when the tracker does not take what it is given."""

    id: str  # how the tracker finds the run again
    where: str  # for people

    def write(self, points: Sequence[Point]) -> None:
        """Hand over points, in the order of their steps."""

    def take_back(self, after: int) -> bool:
        """Make all points after a step void; False when this tracker keeps what it was given."""

    def close(self, status: str) -> None:
        """Finish; `status` is the run's own word: complete, stopped, failed, diverged, running."""


OpenSink = Callable[[Opening], Sink]


def need(module: str, *, extra: str) -> Any:
    """Return an optional package's module; DeviceError names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DeviceError(
            f"the tracker {extra} needs a package that cannot be imported ({error}): "
            f"pip install 'hotloop[{extra}]'"
        ) from error


def refusal(tracker: str, error: Exception, hint: str) -> DeviceError:
    """Return what to raise when a tracker refuses: the first line of its own words, and a hint."""
    first = str(error).strip().partition("\n")[0]
    return DeviceError(f"{tracker} refused: {first} ({hint})")
