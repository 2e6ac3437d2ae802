"""The ledger of a run: what each second of its wall time was for.

Its rows sum to the observed wall time. Rows inside the training steps come from a window of a few
steps whose operators were recorded (observe/ledger), scaled to all steps of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hotloop.core.case.rewrite import Rewrite
from hotloop.core.case.steps_and_loaders import Frame
from hotloop.core.finding import SourceLocation

__all__ = [
    "AVOIDABLE",
    "MEANING",
    "NEEDED",
    "ONCE",
    "CrossedLoss",
    "Ledger",
    "LedgerLine",
    "LedgerRow",
]

MEANING: Mapping[str, str] = {
    "start": "Python and the script's own code before the first step",
    "import": "importing modules",
    "compiling": "torch.compile",
    "waiting for data": "the loop waits for a batch: reading, decoding, collating",
    "waiting for the device": "the host waits for a result",
    "exchanging": "waiting for other processes",
    "evaluating": "passes that no update follows",
    "saving": "writing checkpoints",
    "logging": "printing, plots, trackers, and functions that only read values",
    "idle": "sleeping",
    "dead": "results that reach no loss, no weight and nothing that the script reads",
    "padding": "positions that no loss depends on",
    "repeated": "an operator on the same values as before",
    "recomputed": "activations computed again in the backward pass",
    "frozen": "computed in each step from weights that are not trained",
    "moved": "copies and casts",
    "inefficient": "time above what the operator's FLOPs and bytes need on this machine",
    "useful": "what the operators' FLOPs and bytes need",
    "unaccounted": "training steps of which no operators were recorded",
    "host": "Python and the framework between operators",
    "after training": "from the last step to the end of the script",
}
# Rows that a change of the script can avoid. "inefficient" is none: only an experiment can tell.
AVOIDABLE = frozenset(
    {
        "waiting for data",
        "evaluating",
        "saving",
        "logging",
        "dead",
        "padding",
        "repeated",
        "frozen",
    }
)
ONCE = frozenset({"start", "import", "compiling", "after training"})
# The allowance of a row, as a share of the time of the training steps (decision 0017).
NEEDED: Mapping[str, float] = {
    "waiting for data": 0.02,
    "evaluating": 0.10,
    "saving": 0.03,
    "logging": 0.02,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A part of a row: one line of the project, with what it calls."""

    what: str  # the operator or function that takes the time
    seconds: float
    place: SourceLocation | None = None  # innermost line of the project's own code
    calls: tuple[Frame, ...] = ()  # the call chain, innermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One row: all time of one kind."""

    name: str  # a key of MEANING
    seconds: float
    avoidable: bool = False  # a change of the script can avoid this time
    place: SourceLocation | None = None  # the line that stands for it
    lines: tuple[LedgerLine, ...] = ()  # the most expensive first; the others are left out
    needed: float = 0.0  # seconds of it that are within the allowance
    again: float = 0.0  # seconds of it for samples that were equal an epoch before

    @property
    def excess(self) -> float:
        """Return the seconds that a change of the script can avoid."""
        return max(0.0, self.seconds - self.needed) if self.avoidable else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedLoss:
    """A line whose loss broadcasts: each prediction is compared with the targets of all rows."""

    place: SourceLocation
    prediction: tuple[int, ...]  # shapes
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All rows, in the order of MEANING."""

    rows: tuple[LedgerRow, ...]
    steps: int = 0  # recorded steps
    operations: int = 0  # recorded operators
    # Lines whose log-softmax was given probabilities in each recorded call.
    softmax_twice: tuple[SourceLocation, ...] = ()
    crossed: tuple[CrossedLoss, ...] = ()
    # Share of the positions of the largest log-softmax that get no gradient from the loss.
    without_gradient: float | None = None
    drawn: float = 0.0  # share of the rows of a table that a step draws, without a DataLoader
    rewrites: tuple[Rewrite, ...] = ()  # the most expensive first; the others are left out
    not_split: str | None = None  # why the time of the steps is not split by operators

    @property
    def seconds(self) -> float:
        """Return the sum of all rows."""
        return sum(row.seconds for row in self.rows)

    @property
    def avoidable(self) -> tuple[LedgerRow, ...]:
        """Return the avoidable rows, the largest first."""
        rows = [row for row in self.rows if row.excess > 0]
        return tuple(sorted(rows, key=lambda row: -row.excess))
