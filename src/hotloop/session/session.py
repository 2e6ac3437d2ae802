"""Job, what a recipe wants trained, and the sessions, the mutable objects techniques change."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from hotloop.core.document_boundaries import Boundaries
    from hotloop.core.hardware import Hardware

__all__ = [
    "ALONE",
    "Batch",
    "Custody",
    "Cut",
    "Exchange",
    "Feed",
    "Job",
    "Judge",
    "MicroStep",
    "Prepared",
    "Ranks",
    "Samples",
    "ScriptSession",
    "Session",
    "Subject",
    "evenly",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Host tensors that go to the device together, batch in dim 0 of each."""

    tensors: Mapping[str, Tensor]
    samples: int
    tokens: int  # positions the model computes, padding included
    targets: int  # positions that carry loss; micro batches are weighed by this
    boundaries: Boundaries | None = None  # of its documents; None: each row is one
    counts: bool = True  # False: another rank has a micro batch more, and this one keeps step

    def beside(self, device: torch.device) -> dict[str, Any]:
        """Return what a model of texts is given beside the tensors; nothing where it needs none.

        "boundaries" with their tensor on the device; of token labels "targets", how many of them
        carry loss, so that nobody has to ask a device for it.
        """
        more: dict[str, Any] = {}
        if self.boundaries is not None:
            more["boundaries"] = self.boundaries.to(device)
        if "labels" in self.tensors:
            more["targets"] = self.targets
        return more


class Ranks(Protocol):
    """The processes that train together; collective calls are made by all, in the same order."""

    rank: int
    world: int
    has_restarted: bool  # whether torchrun started this group after another one, for the same run
    job: str | None  # a name of what starts the group anew; None where nothing does
    signalled: Callable[[], float | None]  # seconds since a signal came; None: none did

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every rank, in order; each gives as many. The device goes on."""
        ...

    def total(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all ranks, in place on its device."""
        ...

    def exchange(self, value: object) -> list[Any]:
        """Return the JSON values of every rank, in order; for what happens seldom."""
        ...

    def put(self, name: str, value: object) -> None:
        """Say a JSON value under a name; from any thread."""
        ...

    def take(self, name: str) -> Any:
        """Return what another rank says under a name, once it is said; from any thread."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Have a block fail on every rank where it fails on one, and tell it once."""
        ...

    def leave(self) -> None:
        """Wait for no other rank any more: this one cannot keep step."""
        ...

    def is_gone(self, error: BaseException) -> bool:
        """Whether an error says that another process of the group is gone."""
        ...


class _Alone:
    """One process: it is all ranks."""

    rank, world = 0, 1
    signalled: Callable[[], float | None]

    has_restarted = False
    job: str | None = None

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values)]

    def total(self, tensor: Tensor) -> Tensor:
        return tensor

    def exchange(self, value: object) -> list[Any]:
        return [value]

    def put(self, name: str, value: object) -> None:
        raise AssertionError("there is nobody to say it to")

    def take(self, name: str) -> Any:
        raise AssertionError("there is nobody to say it")

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def leave(self) -> None:
        pass

    def is_gone(self, error: BaseException) -> bool:
        return False


ALONE: Ranks = _Alone()


class Exchange(Protocol):
    """How the ranks of a session share its gradients, and its weights where these are in rows."""

    settles: bool  # its first passes decide the order of sums: then they come before step 1

    def micro(self, *, last: bool) -> AbstractContextManager[None]:
        """Hold the forward and backward pass of a micro batch; `last` is of its window."""
        ...

    def waits(self) -> Mapping[str, float]:
        """Return what passes waited for other ranks since the last call, seconds by phase."""
        ...

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of all gradients, a scalar that is the same on every rank."""
        ...


class Custody(Protocol):
    """Keeps the optimizer, and perhaps weights, in pieces over the ranks, and makes the update.

    A piece is no part by rows. What asks for whole tensors is asked by all ranks, in one order.
    """

    names: tuple[str, ...]  # of the optimizer's parameters, in its order

    def update(self, loss: Tensor, gradient_clip: float) -> Tensor:
        """Clip and step; return the norm of all gradients before. DivergedError changes nothing."""
        ...

    def whole(self) -> AbstractContextManager[None]:
        """Have the weights whole on every rank, and take over what is written into them."""
        ...

    def shape(self, parameter: Tensor) -> torch.Size:
        """Return the shape of a parameter as the model was built."""
        ...

    def weight(self, parameter: Tensor) -> Tensor:
        """Return a trained parameter, whole."""
        ...

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return a parameter's gradient of a window, before the update, whole."""
        ...

    @property
    def steps(self) -> float:
        """Return how many updates the optimizer's state is of."""
        ...

    def moment(self, name: str, entry: str) -> Tensor:
        """Return an entry of the optimizer's state of a parameter, whole."""
        ...

    def load(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over the optimizer's state, by parameter and entry. Raises CheckpointError."""
        ...


class MicroStep(Protocol):
    """Forward and backward of a micro batch in one call."""

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether the call can take this batch."""
        ...

    def __call__(self, tensors: Mapping[str, Tensor], weight: float) -> Tensor:
        """Add the gradients of weight x loss; return that product, a scalar."""
        ...


class Prepared(Protocol):
    """What a recipe made of its data, ready to be cut into samples."""

    @property
    def fingerprint(self) -> str:
        """Of everything that decides what the tokens are."""
        ...

    @property
    def about(self) -> Mapping[str, Any]:
        """What run.json says of them; "fingerprint" is in it."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What happened on the way that one should know."""
        ...


class Samples(Protocol):
    """A data set whose order is a pure function of (seed, epoch, index)."""

    fingerprint: str  # of everything that decides what a sample is
    in_memory: bool  # whether a batch is cut from memory: then no other process makes it sooner

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""
        ...

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return what tells those samples apart, [count]; the run log keeps its digest."""
        ...

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return samples first..first+count-1 of the epoch's order; no shared state is used."""
        ...


class Cut(Protocol):
    """Divides a run of samples into micro batches."""

    def __call__(
        self, samples: Any, epoch: int, first: int, count: int, micro_batch: int
    ) -> list[tuple[int, int]]:
        """Return (first sample, count) of each, in order; `micro_batch` is what memory allows."""
        ...


def evenly(
    samples: Samples, epoch: int, first: int, count: int, micro_batch: int
) -> list[tuple[int, int]]:
    """Cut every `micro_batch` samples."""
    del samples, epoch
    end = first + count
    return [(at, min(micro_batch, end - at)) for at in range(first, end, micro_batch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a validation measures besides the loss, from counts that add up over its batches.

    The loss finds the counts under "counts" beside the batch, on the device, and adds to them.
    """

    start: Callable[[torch.device], Tensor]  # counts of nothing
    # Of all counts, on the host; None where there were no such rows.
    figures: Callable[[Tensor], Mapping[str, float | None]]
    score: str | None = None  # the figure that the best model has most of; None: the loss decides
    # Whether the screen shows a figure; the log has all.
    shows: Callable[[str], bool] = lambda name: True
    # What a user should hear of the figures, if anything.
    remark: Callable[[Mapping[str, float | None]], str | None] = lambda figures: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be trained. `model` and `optimizer` are factories: a job can be started twice."""

    name: str
    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Mapping[str, Tensor]], Tensor]  # mean over the batch's targets
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    train: Samples
    valid: Samples
    seed: int
    cut: Cut = evenly
    judge: Judge | None = None  # None: the loss alone tells the best model
    objective: str = ""  # what is learned: a resumed run must learn the same
    widest: Callable[[int], Batch] | None = None  # a batch of so many of the longest samples
    # Bytes that the optimizer keeps of a parameter, where a forecast cannot make its step.
    state_bytes: Callable[[Tensor], int] | None = None
    # Around micro batches between which no weight changes.
    steady: Callable[[nn.Module], AbstractContextManager[None]] | None = None
    # What a model chose by measuring, by shape: a resumed run goes on with the same choices.
    choices: Callable[[nn.Module], MutableMapping[str, str]] | None = None
    learns_tokens: bool = True  # False: a sample has one target, its label
    learns_all: bool = False  # a trained parameter without a gradient at first is an error
    skeleton: Callable[[], nn.Module] | None = None  # as `model`, but it reads no weights
    # On a device, rows padded to a width or to their longest: row [S] -> the batch's "features"
    # [S, D], computed and not kept: what a benchmark stands them beside.
    computed: Callable[[torch.device, int | None], Callable[[Tensor], Tensor]] | None = None
    begins: Sequence[Path] = ()  # runs whose weights it begins with
    vocabulary: int = 0  # tokens; shapes depend on it
    kept: Mapping[str, str] = field(default_factory=dict)  # texts beside the weights, by name
    # Mean losses in training of parts of the data, by name, since this was asked last.
    parts: Callable[[nn.Module], Mapping[str, float]] | None = None
    example: Callable[[], str] | None = None  # the first sample, as somebody would read it
    loss_unit: str = "nats"
    guesses: int | None = (
        None  # values that one is chosen among; None: the loss is none of a choice
    )
    facts: Mapping[str, str] = field(default_factory=dict)  # lines of the table before step 1


@dataclass(slots=True, kw_only=True)
class Subject:
    """What both hosts give a technique. It changes these fields, or what they hold, in place."""

    hardware: Hardware
    device: torch.device
    model: nn.Module
    forward: Callable[..., Any]  # may be wrapped; a wrapper passes on whatever it is given
    optimizer: torch.optim.Optimizer | None = None
    scaler: torch.amp.GradScaler | None = None
    wrapped: list[str] = field(default_factory=list)  # names of what wraps `forward`, inner first
    undo: dict[str, Callable[[], None]] = field(default_factory=dict)  # technique id -> back out
    facts: dict[str, Any] = field(
        default_factory=dict
    )  # technique id -> what it keeps to read back

    def describe(self) -> str:
        """Return the chain around the forward pass, outermost first."""
        return " > ".join([*reversed(self.wrapped), type(self.model).__name__])


@dataclass(slots=True, kw_only=True)
class Session(Subject):
    """A job on a device, in the engine. The optimizer is built after the MODEL stage."""

    job: Job
    micro_batch: int
    accumulation: int
    forward: Callable[[Mapping[str, Tensor]], Tensor]  # device tensors -> mean loss; may be wrapped
    lag_reads: bool = False  # read losses at the log interval instead of at every step
    background_saves: bool = False  # write checkpoints from a copy, in a thread
    workers: int = 0  # processes that make batches; 0: the loop's own
    workers_ahead: int = 2  # windows that each of them keeps ready
    workers_pin: bool = True  # put their batches into pinned memory, where there is a card
    prefetch: bool = False  # copy the next window to the card while this one is computed
    graphs: bool = False  # record forward and backward at the first call
    replay: MicroStep | None = None  # the recording
    ranks: Ranks = ALONE  # the processes that make a step together
    shares: Exchange | None = None  # how they share it; None: this process is alone
    custody: Custody | None = None  # who has the optimizer in pieces, where it is not whole
    steady: Callable[[], AbstractContextManager[None]] = nullcontext  # as the job's, of the model
    choices: Callable[[], MutableMapping[str, str]] = dict  # as the job's, of the model


class Feed(Protocol):
    """What a loader technique does to each new iterator of a DataLoader."""

    def asked(self, loader: Any) -> None:
        """An iterator is asked for; an old one may have to go first."""

    def built(self, iterator: Any) -> None:
        """Change the iterator in place, before it reads anything."""


@dataclass(slots=True, kw_only=True)
class ScriptSession(Subject):
    """One object of a running script that has reached its stage: a loader, a model, an optimizer.

    The objects stay the script's. What is not at hand is None, or a module without anything in it.
    """

    loader: Any = None  # a DataLoader that is about to be iterated
    feeds: dict[str, Feed] = field(default_factory=dict)  # technique id -> for each new iterator
    scale: Any = None  # a probe.loss_scale.LossScale around backward passes and steps
    refused: str | None = None  # why the technique that was applied last changed nothing
    needless: str | None = None  # why it had nothing to change, where its own words do not fit
    # Technique id -> what went wrong after it was applied.
    troubles: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
