"""A planned run: the facts of a run before it is made, as values that JSON can hold.

`hotloop doctor RECIPE` fills all but the machine; `hotloop doctor` alone fills the machine and the
disk. Facts that were not collected are None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "DataKind",
    "MachineState",
    "MemoryForecast",
    "PaddedRows",
    "PlannedData",
    "PlannedRun",
    "RepeatedLines",
    "RowFacts",
    "RunSettings",
    "TextFacts",
    "TimeForecast",
    "ValidationSize",
]

DataKind = Literal["characters", "labels", "answers", "tasks"]  # what a recipe reads


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """The free resources of this machine, and its measured rates."""

    free_device_bytes: int | None  # of the device's memory; None: unknown
    free_host_bytes: int  # of the host's memory
    shm_bytes: int | None  # size of /dev/shm; None: there is none
    disk: str  # folder in which the disk was timed
    disk_write: float | None  # bytes/s, measured once; None: not measured
    disk_read: float | None  # bytes/s, measured once; None: not measured
    disk_timed_bytes: int  # size of the file
    unfit_build: str | None  # why torch has no kernel for the GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of the run, and the outcome of its first steps."""

    steps: int  # optimizer steps of the whole run
    steps_per_epoch: int
    batch_size: int  # samples of an optimizer step
    accumulation: int  # micro batches of an optimizer step
    learning_rate: float
    parameters: int
    from_scratch: bool  # the model starts from random weights
    warm_up: int  # optimizer steps
    patience: int | None  # validations without improvement that end the run
    max_time: float | None  # seconds after which the run ends
    eval_interval: str | None  # the setting, "training.eval_every_steps=200"; None: none is set
    eval_each_epoch: bool  # the interval counts epochs
    save_every: float  # seconds
    save_every_steps: int | None
    keep: int  # checkpoints
    checkpoint_bytes: int
    needed_bytes: int  # of the disk, for the checkpoints that are kept
    unwritable: str | None = None  # why no checkpoint could be written
    problem: str | None = None  # why a first step could not be made
    refused: Mapping[str, str] = field(default_factory=dict)  # technique -> why

    @property
    def epochs(self) -> float:
        """Return how often the run reads the training data."""
        return self.steps / self.steps_per_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryForecast:
    """The device memory that the run will take."""

    peak_bytes: int
    sentence: str  # the forecast in words
    advice: str | None = None  # what to expect and do if that does not fit
    halved: str | None = None  # how an out-of-memory error reduced the micro batch


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForecast:
    """The wall time of the run, from its first steps."""

    rows: Mapping[str, float]  # seconds by row of the wall time
    steps: int  # optimizer steps
    step: float  # seconds of an optimizer step
    validations: int
    validation_batches: float  # micro batches of one validation
    saves: float  # checkpoints, on average

    @property
    def seconds(self) -> float:
        """Return the wall time of the whole run."""
        return sum(self.rows.values())

    def share(self, row: str) -> float:
        """Return the part of the run that a row takes, 0..1."""
        return self.rows[row] / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSize:
    """The size of one validation."""

    rows: int  # of a text, windows
    targets: int | None = None  # characters or tokens that carry loss; None: not counted
    task: str | None = None  # the smallest of several, to which the rows belong


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedLines:
    """Long lines of a text that also occur in its training part."""

    share: float  # of the characters in long lines
    most: str  # the line that comes most often, its beginning
    times: int  # how often that line comes


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """A text of characters."""

    context: int  # characters of a window
    train: int  # characters
    valid: int  # characters
    by_next_char: bool  # whether the loss is that of the next character
    limit: int | None  # characters that may be read in all
    limit_origin: str | None  # what set the limit; None: the command line, or nothing
    unseen: int  # characters of the validation part that are not in the training part
    most_unseen: Mapping[str, int]  # the most frequent of these -> how often
    looked_at: int  # training characters that were searched for lines
    line: int  # characters of a long line, at least
    repeated: RepeatedLines | None = None  # in the training part; None: it has no long line
    leaked: RepeatedLines | None = None  # of the validation part; None: none stands in the other


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedRows:
    """The rows that the first steps of an epoch compute on."""

    share: float  # of the positions, that are padding
    median: int  # tokens of a row
    longest: int  # tokens of a row
    packed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Rows of tokens."""

    max_length: int  # tokens, a setting
    tokens: int  # to train on
    cut: int  # further tokens that lie beyond max_length
    leaked: float  # share of the validation rows, or texts, that are in the training data
    texts: int | None = None  # training texts; None: copies were not counted
    copies: int = 0  # of these, that are copies of others
    contradicting: int | None = None  # training rows with another label than most of their text
    counts: Mapping[str, int] = field(default_factory=dict)  # class or task -> training rows
    metric: str | None = None  # that judges a classifier
    padding: PaddedRows | None = None  # None: batches have no padding, or are not made of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedData:
    """The data of the run."""

    kind: DataKind
    samples: int  # to train on
    per_epoch: int  # samples that an epoch reads
    in_memory: bool  # batches are cut from memory
    validation: ValidationSize
    text: TextFacts | None = None  # of characters
    rows: RowFacts | None = None  # of all else

    @property
    def noun(self) -> str:
        """Return the word for the data."""
        return "data" if self.text is None else "text"

    @property
    def unit(self) -> str:
        """Return the word for the samples, in the plural."""
        return "rows" if self.text is None else "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run before it is made or, without settings, only the machine."""

    folder: str  # nearest existing parent of the run folder
    free_bytes: int  # of that disk
    gpu_here: str | None = None  # evidence of an NVIDIA GPU, whatever torch sees
    torch_cuda: str | None = None  # CUDA version of torch; None: built without CUDA
    machine: MachineState | None = None  # hotloop doctor alone looks at it
    settings: RunSettings | None = None
    memory: MemoryForecast | None = None
    time: TimeForecast | None = None  # None: no first step could be timed
    data: PlannedData | None = None
