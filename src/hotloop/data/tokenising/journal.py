"""The progress and the contents of a split under way, as a line of its journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.data.readers.bad_rows import Faults, Policy

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.data.tokenising.arrow_file import Rows

__all__ = ["State"]

_LABELS: Final = 1000  # different labels that are counted, at most
_NO_FAULTS: Final = {"first": [], "kinds": {}, "replaced": 0}


@dataclass(slots=True, kw_only=True)
class State:
    """Everything that a process needs to continue after another one was killed."""

    source: int = 0  # index of the file that is read, in the split
    portions: int = 0  # of that file that were turned into tokens
    length: int = 0  # bytes of the output file that are valid
    read: int = 0  # rows of the data, with the bad ones
    documents: int = 0  # texts
    rows: int = 0
    pieces: int = 0  # of texts; a text that is whole in a row counts once
    tokens: int = 0
    learned: int = 0  # tokens that carry loss
    lost: int = 0  # tokens that were cut off
    longest: int = 0  # tokens of a row
    unlearned: int = 0  # rows without loss
    labels: dict[str, int] = field(default_factory=dict)
    carry: dict[str, Any] = field(default_factory=dict)  # the start of the next window
    faulty: dict[str, Any] = field(default_factory=lambda: dict(_NO_FAULTS))
    is_done: bool = False

    @classmethod
    def last(cls, path: Path) -> State:
        """Return the state in a journal's last line; the initial state if it has no line."""
        last = None
        with path.open("rb") as stream:
            for line in stream:
                last = line
        return cls() if last is None else cls(**json.loads(last))

    def reach(self, source: int) -> None:
        """Record that one more portion, of the file `source`, was turned into tokens."""
        self.portions = self.portions + 1 if source == self.source else 1
        self.source = source

    def note(self, rows: Rows, lost: int, *, mask: str | None) -> None:
        """Count rows that were written, and tokens that were cut off."""
        self.rows += len(rows.lengths)
        self.pieces += int(rows.counts.sum())
        self.tokens += len(rows.ids)
        self.lost += lost
        self.longest = max(self.longest, int(rows.lengths.max(initial=0)))
        if mask is None:
            self.learned += len(rows.ids)
        elif len(rows.lengths):
            starts = np.cumsum(rows.lengths) - rows.lengths
            learned = np.add.reduceat(rows.bytes_[mask], starts, dtype=np.int64)
            self.learned += int(learned.sum())
            self.unlearned += int((learned == 0).sum())
        for label in map(str, rows.words.get("label", ())):
            if label in self.labels or len(self.labels) < _LABELS:
                self.labels[label] = self.labels.get(label, 0) + 1

    def faults(self, policy: Policy) -> Faults:
        """Return the bad rows so far."""
        faults = Faults(policy)
        faults.merge(self.faulty)
        return faults

    def about(self, policy: Policy) -> dict[str, Any]:
        """Return the entry of the split in about.json."""
        faults = self.faults(policy)
        return {
            "rows": self.rows,
            "documents": self.documents,
            "pieces": self.pieces,
            "tokens": self.tokens,
            "learned_tokens": self.learned,
            "cut_off_tokens": self.lost,
            "longest": self.longest,
            "rows_without_loss": self.unlearned,
            "rows_read": self.read,
            "bad_rows": faults.count,
            "replaced_rows": faults.replaced,  # bad rows that are kept, with U+FFFD
            "bad": [str(fault) for fault in faults.first],
            "labels": self.labels,
        }
