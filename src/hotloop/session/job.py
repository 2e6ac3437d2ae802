"""Job, the training task of a recipe, and the metrics of its validation."""

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
    """The metrics of a validation besides the loss, from counts that add up over its batches.

    The loss function gets the counts as "counts" with the batch, on the device, and adds to them.
    """

    start: Callable[[torch.device], Tensor]  # returns zero counts
    # Metrics from all counts, on the host; None if there were no such rows.
    figures: Callable[[Tensor], Mapping[str, float | None]]
    score: str | None = None  # the metric that selects the best model, the higher; None: the loss
    # The rows of each class with a right answer, from all counts; None: rows have no classes.
    right: Callable[[Tensor], Sequence[int]] | None = None
    # The scores of each group of rows, from all counts; None: rows have no groups.
    groups: Callable[[Tensor], Mapping[str, Mapping[str, float | None]]] | None = None
    # Whether the screen shows a metric; the log has all.
    shows: Callable[[str], bool] = lambda name: True
    # A remark to the user on the metrics, or None.
    remark: Callable[[Mapping[str, float | None]], str | None] = lambda figures: None
    # Warnings at the end of the training, from the best validation's score or None.
    closing: Callable[[float | None], Sequence[str]] = lambda best: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The training task. `model` and `optimizer` are factories, so a job can be started twice."""

    name: str
    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Mapping[str, Tensor]], Tensor]  # mean over the batch's targets
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    train: Samples
    valid: Samples
    seed: int
    cut: MicroBatchCut = evenly
    judge: ValidationMetrics | None = None  # None: the loss alone selects the best model
    objective: str = ""  # the training objective, which a resumed run must share
    widest: Callable[[int], Batch] | None = None  # number -> batch of that many longest samples
    # Bytes of optimizer state per parameter, for forecasts that cannot make a step.
    state_bytes: Callable[[Tensor], int] | None = None
    # A context around micro batches without a weight update in between.
    steady: Callable[[nn.Module], AbstractContextManager[None]] | None = None
    # A model's measured choices by shape, which a resumed run reuses.
    choices: Callable[[nn.Module], MutableMapping[str, str]] | None = None
    # Values of a batch's tensors at positions and documents of padding, which has no loss and may
    # be added for a recorded step. A tensor without one keeps its size.
    fillers: Mapping[str, int] = field(default_factory=dict)
    learns_tokens: bool = True  # False: a sample has one target, its label
    learns_all: bool = False  # a trained parameter without a first gradient is an error
    skeleton: Callable[[], nn.Module] | None = None  # like `model`, but without reading weights
    # (dtype, whether to read weights) -> like `model` or `skeleton`, with the frozen matrices in 16
    # bits; None: nothing is frozen.
    frozen: Callable[[torch.dtype, bool], nn.Module] | None = None
    # The same with the trained matrices in 16 bits; None: adapters are trained, or a new model.
    trained: Callable[[torch.dtype, bool], nn.Module] | None = None
    # (device, width of padding or None for the longest row) -> a function from a row [S] to the
    # "features" [S, D] of the batch, computed anew, for comparison in a benchmark.
    computed: Callable[[torch.device, int | None], Callable[[Tensor], Tensor]] | None = None
    begins: Sequence[Path] = ()  # runs whose weights initialise the model
    vocabulary: int = 0  # tokens; shapes depend on it
    kept: Mapping[str, str] = field(default_factory=dict)  # texts beside the weights, by name
    # Mean training losses of parts of the data, by name, since the last call.
    parts: Callable[[nn.Module], Mapping[str, float]] | None = None
    example: Callable[[], str] | None = None  # the first sample in readable form
    loss_unit: str = "nats"
    guesses: int | None = None  # number of classes; None: the loss is not that of a choice
    facts: Mapping[str, str] = field(default_factory=dict)  # rows of the table before step 1
