"""The engine's messages to its listeners: values, not text. Only the command line prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.effect import Effect

__all__ = [
    "CheckpointSaved",
    "EpochDone",
    "Evaluated",
    "Message",
    "Note",
    "Notify",
    "Progress",
    "ReadyToTrain",
    "Working",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The position of the run, with means over the steps since the last such message."""

    step: int
    steps: int
    epoch: int
    loss: float
    learning_rate: float
    steps_per_s: float
    samples_per_s: float
    tokens_per_s: float
    memory_bytes: float | None  # of the device, or of the process on a CPU
    utilisation: float | None  # 0..1 of the device, or of the process's cores on a CPU
    seconds_left: float | None
    steady_from: int | None  # "compiling: judge speed from step k", until then
    parts: Mapping[str, float] = field(default_factory=dict)  # losses of parts of the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A validation."""

    step: int
    loss: float
    unit: str
    best: bool
    seconds: float
    figures: Mapping[str, float | None] = field(default_factory=dict)  # of the job's metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """A checkpoint is durable."""

    step: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDone:
    """An epoch is complete: all its samples were used once."""

    epoch: int  # 1 for the first
    seconds: float  # wall time since the last epoch, everything included
    tokens_per_s: float  # over that wall time
    mfu: float | None  # model FLOP/s over the device's peak, within the steps; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence the user must see."""

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """Work before step 1 that may take a while."""

    what: str
    share: float  # 0..1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyToTrain:
    """Everything is ready for the first step."""

    path: Path
    facts: Mapping[str, str]  # model, data, batch, length, memory: a line each
    choices: Sequence[tuple[str, str, str]]  # what, value, reason: derived, not typed
    effects: Sequence[Effect]


Message = ReadyToTrain | Working | Progress | Evaluated | CheckpointSaved | EpochDone | Note
Notify = Callable[[Message], None]
Readings = Mapping[str, float | None]
