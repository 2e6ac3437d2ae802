"""The objects that a script built and used, as plain facts: models, optimizers, schedulers.

Parameter counts are counts of numbers, not of tensors; unknown is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hotloop.core.finding import SourceLocation

__all__ = [
    "AttentionFacts",
    "Discarded",
    "Lost",
    "Model",
    "Modes",
    "Optimizer",
    "ParameterGroup",
    "Repeat",
    "Role",
    "Scaler",
    "Scheduler",
    "TwiceUpdated",
]


Role = Literal["train", "evaluate only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroup:
    """One parameter group of an optimizer."""

    parameters: int  # numbers in it
    tensors: int
    frozen: int = 0  # numbers that do not require a gradient
    without_gradient: int = 0  # numbers that require one and never got it
    dtypes: tuple[str, ...] = ("float32",)
    fused: bool | None = None
    foreach: bool | None = None
    weight_decay: float | None = None
    # Numbers in it by keys that the optimizer's defaults lack, and the numbers of the defaults.
    unknown: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The updates lost to rounding, sampled for an optimizer's weights of one dtype."""

    dtype: str
    numbers: int  # of these weights, in all
    share: float  # of the updates that were rounded away, 0..1, as sampled by elements
    never: float  # share of numbers that no update changed, from first to last sample
    tensors: int = 0  # distinct ones that were sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """An optimizer that was stepped, or built and never stepped (`steps` 0)."""

    key: int
    name: str
    place: SourceLocation | None = None
    groups: tuple[ParameterGroup, ...] = ()
    steps: int = 0
    rates: tuple[tuple[int, float], ...] = ()  # (step, learning rate of the first group), sampled
    updates: tuple[float, ...] = ()  # median |update| over the weight's spacing, sampled tensors
    lost: tuple[Lost, ...] = ()  # of 16-bit weights
    zeroed_to_none: bool | None = None  # zero_grad(set_to_none=...) as it was called
    zero_grad: int = 0  # calls, of optimizers and modules


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceUpdated:
    """Weights that two optimizers update after one backward pass, with the same gradients."""

    optimizers: tuple[int, int]  # Optimizer.key of both
    updates: int  # that were the second, of those that were looked at
    parameters: int  # numbers
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A learning-rate scheduler."""

    name: str
    place: SourceLocation | None = None
    steps: int = 0  # calls
    total: int | None = None  # steps it was built for (T_max, total_steps, total_iters, lambda's)
    begun: int = 0  # calls before the first batch, in a resumed run
    # Optimizer.key of the one whose rate it sets; -1: one that is never stepped; None: unknown.
    optimizer: int | None = None
    optimizer_steps: int = 0  # of its optimizer in the same time
    in_loop: bool = False  # it was built in a loop: for each fold, or each stage
    gone: bool = False  # it was freed before the end: calls after the last look are not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """A GradScaler."""

    place: SourceLocation | None = None
    enabled: bool = True
    scaled: int = 0  # losses it scaled
    steps: int = 0
    skipped: int = 0  # steps it left out
    unscaled: int = 0  # calls of unscale_
    scale: float | None = None  # last
    autocast: str | None = None  # dtype seen in the forward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A module that ran more than once per forward pass, or again on the same inputs."""

    module: str  # its name in the model
    kind: str  # its class
    place: SourceLocation | None = None  # its class, where that is the project's own
    calls: float = 1.0  # per forward pass of the root
    repeated: float = 0.0  # of these calls, those on tensors it had before in the same pass
    again: float | None = None  # share of forward passes with inputs it had had in another epoch
    frozen: bool = False  # nothing trainable in it or before it
    parameters: int = 0
    seconds: float | None = None  # per forward pass, measured on sampled passes
    call_places: tuple[SourceLocation, ...] = ()  # where it is called


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """A module that runs in training but whose output never receives a gradient."""

    module: str  # its name in the model
    kind: str  # its class
    parameters: int = 0  # trainable numbers in it
    seconds: float | None = None  # per forward pass, measured on sampled passes
    share: float | None = None  # of the forward pass, 0..1
    returned: bool = False  # the model returns the output; False: no operator reads it (probed)
    call_places: tuple[SourceLocation, ...] = ()  # where it is called


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFacts:
    """How attention is computed."""

    kind: Literal["sdpa", "eager", "flash", "flex", "other"]
    kernel: str | None = None  # of SDPA: flash, efficient, math, cudnn
    calls: float = 0.0  # per forward pass
    why_math: str | None = None
    configured: str | None = None  # what the model's configuration asks for
    causal: bool | None = None  # a later token changes no earlier output (probed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """In which mode a model was trained and evaluated."""

    # Layers whose result depends on it, beside what an optimizer trains: class -> number. `off` are
    # those of them that were in evaluation mode right after an update.
    layers: Mapping[str, int] = field(default_factory=dict)
    off: Mapping[str, int] = field(default_factory=dict)
    updates: int = 0
    passes: float = 0.0  # calls per step that led to a backward pass
    in_eval: int = 0  # updates that only passes in evaluation mode led to
    turns: int = 0  # changes between the two from one update to the next
    eval_since: int | None = None  # step from which all were in evaluation mode to the end
    eval_place: SourceLocation | None = None  # of the eval() that came last before it
    # A part of it that a library set to evaluation mode and nobody set back while it trained.
    part: str = ""  # its name, as in named_modules()
    part_off: Mapping[str, int] = field(default_factory=dict)  # layers in it that are off
    part_place: SourceLocation | None = None  # where the library was called
    scored: int = 0  # passes in evaluations with a loader of their own, without gradients
    unset: int = 0  # those of them in training mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """An outermost module that was called."""

    name: str  # its class
    place: SourceLocation | None = None  # of the class, where it is the project's own
    classes: tuple[str, ...] = ()  # of its modules and their bases, but torch's own
    role: Role = "train"
    parameters: int = 0  # numbers
    trainable: int = 0
    bytes: int = 0
    dtypes: Mapping[str, int] = field(default_factory=dict)  # dtype -> numbers
    device: str = "cpu"
    compute: str | None = None  # dtype of matrix products: the autocast dtype or the weights'
    dead: tuple[str, ...] = ()  # trainable parameters that never got a gradient
    dead_parameters: int = 0  # numbers in them
    uncalled_parameters: int = 0  # of those, in modules that no forward pass called
    unused: tuple[str, ...] = ()  # modules with parameters that no forward pass called
    unused_parameters: int = 0
    unused_place: SourceLocation | None = None  # class or construction of the first unused module
    repeats: tuple[Repeat, ...] = ()
    frozen_graph: str | None = None  # an untrained prefix module whose output has a graph
    frozen_prefix_seconds: float | None = None  # per forward pass, in it or in frozen modules
    attention: tuple[AttentionFacts, ...] = ()
    tables: int = 0  # numbers in embeddings whose gradients are dense
    table_rows: int = 0  # of the largest of them
    normalised: bool = False  # batch norm: the micro batch is part of the mathematics
    dropout: float | None = None  # largest probability
    convolutions: int = 0
    bias_before_norm: int = 0  # convolutions with a bias that a batch norm removes
    channels_last: bool | None = None
    checkpointed: bool = False  # activation checkpointing is on
    compiled: bool = False
    output: tuple[int, ...] = ()  # shape of the largest output
    discarded: tuple[Discarded, ...] = ()
    forward_modes: Mapping[str, int] = field(default_factory=dict)  # "train grad", "eval grad", …
    wrapped: str | None = None  # DataParallel, DistributedDataParallel, FSDP
    adapters: tuple[str, ...] = ()  # kinds of adapters: lora, dora, peft
    rows: int | None = None  # of its first argument, in a training pass
    sequence_first: tuple[str, ...] = ()  # modules that take the first dimension for the sequence
    unbatched: tuple[str, ...] = ()  # recurrent layers whose input has no dimension for the batch
    mixes_rows: bool | None = None  # a row changes the output for another (probed)
    unoptimised: int = 0  # trainable numbers of a model that no optimizer updates
    call_places: tuple[SourceLocation, ...] = ()  # where the script calls it
    modes: Modes | None = None
    drops: tuple[SourceLocation, ...] = ()  # lines that drop numbers in evaluation mode (probed)
    # Parameters that got gradients, are in no optimizer although others are, and did not change.
    left_out: tuple[str, ...] = ()
    left_out_parameters: int = 0
