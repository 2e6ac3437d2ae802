"""Job, what a recipe wants trained, and how its model is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.session.batch import evenly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch
    from torch import Tensor, nn

    from hotloop.session.batch import Batch, MicroBatchCut, Samples

__all__ = ["Job", "ValidationMetrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationMetrics:
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
    cut: MicroBatchCut = evenly
    judge: ValidationMetrics | None = None  # None: the loss alone tells the best model
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
