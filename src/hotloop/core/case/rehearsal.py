"""What was seen of a script on a simulated card, and what is said of it. Plain facts.

Times are those of this machine's host; the simulated card computes nothing and takes no time.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hotloop.core import codec
from hotloop.core.case.environment import Raised
from hotloop.core.effect import Effect
from hotloop.core.finding import SourceLocation

__all__ = [
    "BatchTrial",
    "CardDiagnosis",
    "CardFinding",
    "CardLine",
    "CardStep",
    "KernelWork",
    "LargestBatch",
    "RecipePlan",
    "Rehearsal",
    "RehearsedRun",
    "StepEstimate",
    "Verdict",
]

SCHEMA = 1  # history: 1 (2026-11) first

Answer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardStep:
    """One step, from the end of the one before it to its own end."""

    seconds: float  # of the host, which waits for no kernel here
    launches: int  # kernels and matrix products that the host launched itself
    graphs: int = 0  # CUDA graphs that it launched
    waits: Mapping[str, int] = field(default_factory=dict)  # call of CUDA -> times it had to wait

    @property
    def waited(self) -> int:
        """Return how often the host had to wait for the card."""
        return sum(self.waits.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLine:
    """What one line of the script gave the card to do in one step."""

    place: SourceLocation | None  # None: no line of the project's own ran
    launches: int
    waits: int
    code: str = ""  # the line itself, without its indent


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """Operators of one step that compute and move the same."""

    calls: int
    flops: int  # of one call; 0 unless it is a matrix product, attention or a convolution
    bytes: int  # that one call reads and writes
    precision: str | None = None  # of the product: fp32, tf32, bf16, fp16; None: no product


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePlan:
    """How a recipe decided to train on that card."""

    facts: Mapping[str, str]  # "batch", "memory": lines that hotloop train prints as it begins
    effects: tuple[Effect, ...]  # of the techniques
    micro_batch: int  # samples
    accumulation: int  # micro batches of an optimizer step
    samples: int  # to train on


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedRun:
    """What the process on the simulated card saw of one run."""

    torch: str | None  # its version; None: the script did not import it
    is_recipe: bool = False
    plan: RecipePlan | None = None  # of a recipe; None: it stopped before that
    notes: tuple[str, ...] = ()  # warnings of a recipe
    architectures: tuple[str, ...] = ()  # for which torch's wheel has code: "sm_80"
    warm: int  # steps before the counted ones
    steps: tuple[CardStep, ...] = ()  # the counted ones
    unit: str = "optimizer step"  # or "backward pass", where no optimizer of torch was built
    lines: tuple[CardLine, ...] = ()  # of one more step, the most waits first
    why_no_lines: str | None = None
    ended: str  # why no more steps were made
    raised: Raised | None = None  # an exception that ended the script
    raised_code: str = ""  # the line of the script
    launches: int = 0  # in the whole run
    peak_reserved: int = 0  # bytes that torch had taken from the card at once
    peak_allocated: int | None = None  # bytes that its tensors needed at once; None: unknown
    largest_refused: bool = False  # the card refused memory at least once
    batch_asked: int | None = None  # rows of a batch of the DataLoader; a recipe's micro batch
    batch: int | None = None  # rows that it was given in this run
    rows: int | None = None  # of its data set
    work: tuple[KernelWork, ...] = ()  # of one more step
    kernels: tuple[str, ...] = ()  # what kinds of kernels ran: "bf16", "flash attention"

    @property
    def what(self) -> str:
        """Return what was run, in a word."""
        return "recipe" if self.is_recipe else "script"

    @property
    def made(self) -> int:
        """Return how many steps were made."""
        return self.warm + len(self.steps)

    @property
    def host_seconds(self) -> float | None:
        """Return the median of the host's seconds in a step; None without a counted step."""
        return statistics.median(step.seconds for step in self.steps) if self.steps else None

    @property
    def step_launches(self) -> float | None:
        """Return the median of the launches in a step; None without a counted step."""
        return statistics.median(step.launches for step in self.steps) if self.steps else None

    @property
    def step_waits(self) -> float | None:
        """Return the median of the waits in a step; None without a counted step."""
        return statistics.median(step.waited for step in self.steps) if self.steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One answer about the script on that card."""

    question: str  # "starts", "memory", "bf16"
    answer: Answer
    text: str  # a sentence without its full stop
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTrial:
    """A run with another batch."""

    batch: int  # rows of a batch of the DataLoader; a recipe's micro batch
    fits: bool | None  # None: it ended for another reason
    peak_reserved: int  # bytes
    why_not: str | None = None  # why nothing more can be told


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch that fits, and the runs that prove it."""

    memory: int  # bytes that were allowed
    fits: int | None  # the largest batch that was run and fits
    fails: int | None  # the smallest one that was run and does not
    trials: tuple[BatchTrial, ...]
    why_not: str | None = None  # why it was not found


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """The host's measured time for a step beside an estimate of the card's."""

    host_seconds: float  # measured on this machine
    card_seconds: float | None  # derived from FLOPs, bytes and the card's peaks, not measured
    why_not: str | None = None  # why the card's time is not known
    why_no_limit: str | None = None  # why the two cannot be compared
    card_from: int | None = None  # batch from which on the card needs more time; None: unknown
    median_error: float  # of such estimates on the figures held back, as a share of them
    largest_error: float  # of such estimates on all figures
    held_back: int  # published figures that the estimate was not fitted to
    figures: int  # published figures
    is_rough: bool  # the estimate is an order of magnitude only

    @property
    def limit(self) -> Literal["host", "card"] | None:
        """Return what takes longer; None if the other is within the error of the estimate."""
        if self.card_seconds is None or self.why_no_limit is not None:
            return None
        least, most = (self.card_seconds / (1 + self.largest_error), self.card_seconds)
        most *= 1 + self.largest_error
        return "card" if least > self.host_seconds else "host" if most < self.host_seconds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFinding:
    """What one of the doctor's rules says of the script on that card."""

    rule: str  # "H3 hidden_sync"
    severity: str  # "critical", "warn", "note"
    claim: str
    places: tuple[SourceLocation, ...] = ()
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDiagnosis:
    """What the doctor's rules on the GPU and the host say, by the card's estimated times."""

    findings: tuple[CardFinding, ...]
    steps: int  # that were observed
    raised: str | None = None  # what ended the script meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The whole result of `hotloop rehearse`."""

    card: str  # as the driver spells it
    key: str  # as it is typed
    capability: tuple[int, ...]
    memory: int  # bytes that the card reports
    script: str
    command: tuple[str, ...]  # what follows `python`; secrets are taken out
    run: RehearsedRun
    verdicts: tuple[Verdict, ...]
    not_shown: tuple[str, ...]  # what this run cannot say
    estimate: StepEstimate | None = None  # None: no step was counted
    largest: LargestBatch | None = None  # None: not asked for
    judged: CardDiagnosis | None = None
    why_not_judged: str | None = None

    @property
    def starts(self) -> Answer:
        """Return whether the script makes steps on that card."""
        return next(one.answer for one in self.verdicts if one.question == "starts")

    def to_json(self) -> dict[str, object]:
        """Return it as JSON can hold it."""
        return codec.to_json(self, schema=SCHEMA)
