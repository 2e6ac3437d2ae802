"""The facts of an observed script's steps, loaders and batches, which the rules judge.

Units are seconds and bytes; steps are optimizer steps from 1; unknown is None. Names of tensors,
modules and files are the script's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Literal

from hotloop.core.finding import SourceLocation

__all__ = [
    "ROWS",
    "BatchFacts",
    "EvaluationSpan",
    "Frame",
    "Loader",
    "Resume",
    "Save",
    "Stack",
    "Steps",
    "Sync",
    "TrainingOrder",
]

# Every second of a run belongs to one row. The rows of a step are between "compile" and "evaluate".
ROWS = (
    "start",  # Python without hotloop's own part, and the script's code before its first step
    "import",
    "data load",  # reading data before the first step
    "compile",
    "data wait",  # the loop asks a loader (or its own function) for a batch and waits
    "prepare",  # from the batch to the forward pass: moved, masked, gradients set to zero
    "host to device",  # copies to the GPU; part of "prepare" where there is no GPU
    "forward",  # the loss included
    "backward",
    "exchange",  # waiting for other processes; in a script it is part of other rows
    "optimizer",  # clipping and the scaler included
    "host waits",  # the host waits for the GPU's result: .item() and similar calls
    "after step",  # from the update to the next batch, without the rows below
    "evaluate",
    "save",
    "log",  # print, progress bars, trackers, plots
    "idle",  # sleeping
    "after training",  # from the last step to the end of the script
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One level of a call stack."""

    file: str  # absolute
    line: int
    function: str  # qualified where Python knows it
    own: bool  # the project's own code, not a library


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack of the main thread in a row: all samples with this stack."""

    row: str
    frames: tuple[Frame, ...]  # innermost first; outer frames of libraries are left out
    samples: int
    seconds: float  # of the row's time, by its share of the row's samples

    @property
    def place(self) -> SourceLocation | None:
        """Return the innermost line of the project's own code."""
        own = next((frame for frame in self.frames if frame.own), None)
        return SourceLocation(file=own.file, line=own.line) if own else None

    def passes(self, *fragments: str) -> bool:
        """Whether a frame's "file:function" contains one of `fragments`."""
        return any(
            fragment in f"{frame.file}:{frame.function}"
            for frame in self.frames
            for fragment in fragments
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The optimizer steps. Lists hold one entry per observed step, thinned evenly to 2,000."""

    count: int  # all optimizer steps that were made
    wall: tuple[float, ...] = ()  # seconds from step to step, evaluation and saving left out
    rows: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # row -> seconds, as `wall`
    numbers: tuple[int, ...] = ()  # which step each entry is
    backwards: float | None = None  # median backward calls per step: the accumulation
    # Names of the autograd nodes from which backward passes began: "NllLossBackward0", …
    loss_roots: tuple[str, ...] = ()
    # Share of the nodes that a step's backward passes go through again, though they could have been
    # one pass, sampled; and the lines of those passes.
    repeated_graph: float | None = None
    repeated_places: tuple[SourceLocation, ...] = ()
    kept_gradients: float | None = None  # share of updates that add to the gradients of the last
    gradient_looks: int = 0  # of how many updates that share is
    backward_place: SourceLocation | None = None  # where a backward pass is made
    made_again: float | None = None  # share of updates with the gradients of the last, no new pass
    again_looks: int = 0  # of how many updates that share is
    again_place: SourceLocation | None = None  # where such an update is made
    left: int = 0  # backward calls that filled no step, at the end of an epoch or of the run
    optimizers: int = 1  # distinct optimizers stepped in a cycle, the most
    # What ends a step. Only the main thread is observed: updates of other threads make no step.
    how: Literal["optimizer", "backward", "another thread", "none"] = "optimizer"
    samples: float | None = None  # of a micro batch, median
    tokens: float | None = None  # of a micro batch, padding included, median
    losses: tuple[tuple[int, float], ...] = ()  # (step, value at backward), sampled
    # Values that the model chooses among; known only for runs of hotloop train.
    guesses: tuple[int, ...] = ()
    nonfinite: int | None = None  # first step whose loss was NaN or infinite
    main_cpu: float | None = None  # share of the step time the main thread was computing, 0..1
    starved: float | None = None  # share of sampled steps where the GPU was done first (run-ahead)
    # forward, backward, optimizer -> seconds on the GPU's own clock, sampled steps (one in 8)
    gpu: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    flops: float | None = None  # floating-point operations of one optimizer step, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """A DataLoader."""

    key: int
    role: Literal["train", "evaluate", "unused"] = "train"
    place: SourceLocation | None = None  # where it was built, or where the function is called
    dataset: str = ""  # its type
    getitem: SourceLocation | None = None  # its __getitem__, where that is the project's own
    collate: str = "default_collate"
    collate_place: SourceLocation | None = None
    length: int | None = None  # samples of the data set
    batches: int | None = None  # of one epoch
    batch_size: int | None = None
    workers: int = 0
    pin_memory: bool = False
    persistent: bool = False
    prefetch_factor: int | None = None
    drop_last: bool = False
    shuffle: bool | None = None
    sampler: str = ""
    once: bool | None = None  # each sample comes once an epoch; None: the sampler is not torch's
    in_order: bool = True
    iterable: bool = False
    worker_info: bool | None = None  # an iterable data set asks for its worker's number
    vectorised: bool = False  # __getitems__
    in_memory: bool | None = None  # rows are parts of tensors or arrays that are there already
    uses_random: bool | None = None  # reading a sample draws from a global generator
    set_epoch: int | None = None  # calls of a distributed sampler's set_epoch
    iterations: int = 0  # how often it was started: its epochs
    waits: tuple[float, ...] = ()  # seconds the loop waited per batch, at most 2,000
    first_waits: tuple[float, ...] = ()  # of those, the first of each epoch
    last_waits: tuple[float, ...] = ()  # until no batch is left: workers are ended; not of `waits`
    empty: float | None = None  # share of waits that met an empty queue (workers > 0)
    items: tuple[float, ...] = ()  # seconds per dataset[i], sampled, workers = 0
    collates: tuple[float, ...] = ()  # seconds per collate call, sampled, workers = 0
    batch_bytes: int | None = None
    dataset_bytes: int | None = None
    dtypes: tuple[str, ...] = ()
    pinned: bool | None = None
    worker_cpu: float | None = None  # cores its processes kept busy
    repeats: float | None = None  # share of sampled items read again with equal result next epoch
    sampler_place: SourceLocation | None = None  # its __iter__, where that is the project's own
    drawn: int | None = None  # distinct samples that its first whole epochs drew
    epochs_drawn: int = 0  # how many of them were compared
    draws_again: bool = False  # each drew the same batches in the same order, not row after row


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLengths:
    """The lengths of rows that are padded to the width of their batch."""

    widths: tuple[int, ...] = ()  # of each batch, padding included
    lengths: tuple[int, ...] = ()  # of each row, without its padding, batch by batch
    rows: tuple[int, ...] = ()  # how many of them are in each batch
    pad_id: int | None = None

    @property
    def above_longest(self) -> float:
        """Return the share of the width beyond a batch's longest row, the mean over batches."""
        batches = (self.lengths[a:b] for a, b in pairwise([0, *accumulate(self.rows)]))
        longest = [max(lengths) for lengths in batches if lengths]
        return 1 - fmean(longest) / self.widths[0] if longest and self.widths else 0.0

    @property
    def padding(self) -> float:
        """Return the share of the positions that are padding."""
        positions = sum(w * n for w, n in zip(self.widths, self.rows, strict=True))
        return 1 - sum(self.lengths) / positions if positions else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The inputs of the model, from sampled batches of one loader or of hand-made ones."""

    loader: int | None = None  # Loader.key
    role: Literal["train", "evaluate"] = "train"
    sampled: int = 0  # batches
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # field -> of the first
    widths: tuple[int, ...] = ()  # sequence length of each sampled batch, padding included
    lengths: tuple[int, ...] = ()  # real tokens of each sampled row, batch by batch
    rows: tuple[int, ...] = ()  # how many of them are in each sampled batch
    pad_id: int | None = None
    padding: float | None = None  # share of positions that are padding, 0..1
    truncated: float | None = None  # share of rows that fill the whole width, where rows vary
    ignored: float | None = None  # share of label positions that carry no loss (-100)
    duplicated: float | None = None  # share of rows equal to an earlier row of the same epoch
    shifted: int | None = None  # rows are windows this many positions apart (stride)
    overlap: float | None = None  # how often each position of the source is read per epoch
    in_evaluation: float | None = None  # share of evaluation rows that are training rows too
    of_training: bool = False  # an evaluation reads the very data set that training reads
    label: str | None = None  # name of the field or argument taken for the label
    labels: Mapping[str, int] = field(default_factory=dict)  # value -> how often, at most 50
    targets: RowLengths | None = None  # of labels that are rows of tokens
    # Name of the field with each prompt's length, where the labels equal the inputs over prompts.
    prompt: str | None = None
    prompts: float | None = None  # share of the label positions that are such prompts
    decoded: str | None = None  # one sample as text, or its numbers
    place: SourceLocation | None = None
    variety: int | None = None  # distinct shapes of the main input among the sampled

    @property
    def above_longest(self) -> float:
        """Return the share of the width beyond a batch's longest row, the mean over batches."""
        number = len(self.lengths)
        rows = self.rows or tuple([max(1, number // max(1, self.sampled))] * number)
        return RowLengths(widths=self.widths, lengths=self.lengths, rows=rows).above_longest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    """How the training rows are ordered, from the targets of sampled updates."""

    # How much more alike two rows of one update are than two rows of the run: 0 as in a random
    # order, 1 if each update has one target.
    alike: float
    deviations: float  # standard deviations by which that exceeds random orders of the same rows
    updates: int  # distinct ones that were compared
    values: int | None = None  # classes; None: the targets are numbers
    per_update: float | None = None  # distinct classes of the rows compared, mean
    by_chance: float | None = None  # the same, in a random order
    period: int | None = None  # updates after which the batches come again in the same order
    repeated: int = 0  # batches that were seen to come again; 0: a sampler keeps the order
    windows: bool = False  # a row is the row before it, moved on: windows of a series
    loader: int | None = None  # Loader.key
    place: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSpan:
    """One stretch of no-grad forward passes."""

    at: float  # seconds since the start
    seconds: float
    step: int  # optimizer steps made before
    batches: int
    place: SourceLocation | None = None
    with_grad: bool = False  # autograd recorded it
    training_mode: bool = False  # no model that was called was in eval()
    loader: int | None = None

    @property
    def is_sure(self) -> bool:
        """Whether it is certainly an evaluation: in eval mode, or with a loader of its own.

        Otherwise an agent that acts, a skipped step and a search for hard examples look the same.
        """
        return self.loader is not None or not self.training_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One file written by torch.save or a similar function."""

    at: float  # seconds since the start
    seconds: float
    step: int
    bytes: int | None
    path: str
    place: SourceLocation | None = None
    kinds: tuple[str, ...] = ()  # of model, optimizer, scheduler, scaler, rng, epoch, other
    frozen_bytes: int = 0  # of parameters that are never trained
    same_path: bool = False  # an earlier save wrote the same path


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """A checkpoint whose weights a model got, seen at the next optimizer's first step.

    All weights of the model came from it, and it holds the state of such an optimizer.
    """

    path: str
    lost: tuple[str, ...]  # of "optimizer" and "schedule": in the file, and not loaded
    counter: str | None = None  # of the file, from which a counter of the script goes on
    saved_rate: float | None = None  # learning rate in the file
    rate: float | None = None  # at the first step
    place: SourceLocation | None = None  # where the weights were loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A place where the host waited for the GPU, or would wait with one."""

    method: str  # item, tolist, cpu, numpy, bool, nonzero, ..., empty_cache, gc.collect
    place: SourceLocation | None
    calls: int
    per_step: float
    seconds: float
    row: str = "after step"  # the row in which it happened
