"""The sessions, the mutable objects that techniques change: of a job, and of a running script."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hotloop.session.ranks import SINGLE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence
    from contextlib import AbstractContextManager

    import torch
    from torch import Tensor, nn

    from hotloop.core.hardware import Hardware
    from hotloop.session.batch import Batch
    from hotloop.session.job import Job
    from hotloop.session.ranks import GradientSync, ProcessGroup, ShardedOptimizer

__all__ = [
    "LoaderChange",
    "Loading",
    "Parallel",
    "RecordedStepping",
    "ScriptSession",
    "Session",
    "Stepping",
    "TechniqueTarget",
]


@dataclass(slots=True, kw_only=True)
class TechniqueTarget:
    """What both hosts pass to a technique, which changes the fields or their objects in place."""

    hardware: Hardware
    device: torch.device
    model: nn.Module
    forward: Callable[..., Any]  # may be wrapped; a wrapper passes on all arguments
    optimizer: torch.optim.Optimizer | None = None
    scaler: torch.amp.GradScaler | None = None
    wrapped: list[str] = field(default_factory=list)  # wrappers of `forward`, innermost first
    undo: dict[str, Callable[[], None]] = field(default_factory=dict)  # technique id -> its undo
    facts: dict[str, Any] = field(default_factory=dict)  # technique id -> data for its read_back

    def describe(self) -> str:
        """Return the chain around the forward pass, outermost first."""
        return " > ".join([*reversed(self.wrapped), type(self.model).__name__])


class RecordedStepping(Protocol):
    """The passes and updates of a training as recordings."""

    def ready(self, window: Sequence[Batch]) -> None:
        """Record what the window needs. Gradients must be zero."""

    def begin(self) -> None:
        """Prepare for the micro batches until the next update."""

    def micro(self, batch: Batch, weight: float) -> Tensor | None:
        """Add the gradients of weight x loss; return that product, or None if not recorded."""

    def update(self, guard: Any, loss: Tensor, gradient_clip: float) -> Tensor | None:
        """Update the weights; return the gradient norm, or None if it must be made eagerly."""


@dataclass(slots=True, kw_only=True)
class Loading:
    """How the windows of a session get to its device."""

    workers: int = 0  # processes that make batches; 0: the process of the loop
    windows_ahead: int = 2  # that each worker keeps ready
    pins: bool = True  # put the workers' batches into pinned memory, with a GPU
    prefetch: bool = False  # copy the next window to the GPU during this one


@dataclass(slots=True, kw_only=True)
class Stepping:
    """How a session makes its steps and its saves."""

    lag_reads: bool = False  # read losses at the log interval instead of at every step
    background_saves: bool = False  # write checkpoints from a copy, in a thread
    graphs: str | None = None  # record the steps: "always", or "faster" if that is measured
    replay: RecordedStepping | None = None  # the recordings
    # What was measured or tried of compiling and of recordings; a resumed run does the same.
    decided: dict[str, str] = field(default_factory=dict)
    steady: Callable[[], AbstractContextManager[None]] = nullcontext  # the job's, with the model


@dataclass(slots=True, kw_only=True)
class Parallel:
    """The processes that make a session's steps together."""

    group: ProcessGroup = SINGLE_PROCESS
    sync: GradientSync | None = None  # how they share a step; None: a single process
    sharded_optimizer: ShardedOptimizer | None = None  # None: each process has the whole optimizer


@dataclass(slots=True, kw_only=True)
class Session(TechniqueTarget):
    """A job on a device, in the engine. The optimizer is built after the MODEL stage."""

    job: Job
    micro_batch: int
    accumulation: int
    forward: Callable[[Mapping[str, Tensor]], Tensor]  # device tensors -> mean loss; may be wrapped
    loading: Loading = field(default_factory=Loading)
    stepping: Stepping = field(default_factory=Stepping)
    parallel: Parallel = field(default_factory=Parallel)
    choices: Callable[[], MutableMapping[str, str]] = dict  # the job's, with the model


class LoaderChange(Protocol):
    """The change that a loader technique makes to each new iterator of a DataLoader."""

    def on_iterator_requested(self, loader: Any) -> None:
        """Prepare for a new iterator; an old one may have to be closed first."""

    def on_iterator_created(self, iterator: Any) -> None:
        """Change the iterator in place, before it reads anything."""


@dataclass(slots=True, kw_only=True)
class ScriptSession(TechniqueTarget):
    """One object of a running script at its stage: a loader, a model or an optimizer.

    The objects still belong to the script. Missing ones are None, or an empty module.
    """

    loader: Any = None  # a DataLoader that is about to be iterated
    # Technique id -> its change of iterators.
    loader_changes: dict[str, LoaderChange] = field(default_factory=dict)
    scale: Any = None  # an on_scripts.loss_scale.LossScale around backward passes and steps
    refused: str | None = None  # why the technique that was applied last changed nothing
    needless: str | None = None  # why it had nothing to change, if its own words do not fit
    # Technique id -> what went wrong after it was applied.
    troubles: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
