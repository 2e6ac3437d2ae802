"""How far a split has been tokenised, and what is in it: a line of its journal."""

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

_LABELS: Final = 1000  # different labels that are counted
_NO_FAULTS: Final = {"first": [], "kinds": {}, "replaced": 0}


@dataclass(slots=True, kw_only=True)
class State:
    """Everything that a process needs to go on where another one was killed."""

    source: int = 0  # of the files of the split: the one that is read
    portions: int = 0  # of it that were turned into tokens
    length: int = 0  # bytes of the file that are right
    read: int = 0  # rows of the data, the bad ones included
    documents: int = 0  # texts
    rows: int = 0
    pieces: int = 0  # of texts: one for each that is whole in a row
    tokens: int = 0
    learned: int = 0  # tokens that carry loss
    lost: int = 0  # tokens that were cut off
    longest: int = 0  # tokens of a row
    unlearned: int = 0  # rows in which nothing carries loss
    labels: dict[str, int] = field(default_factory=dict)
    carry: dict[str, Any] = field(default_factory=dict)  # what the next window begins with
    faulty: dict[str, Any] = field(default_factory=lambda: dict(_NO_FAULTS))
    is_done: bool = False

    @classmethod
    def last(cls, path: Path) -> State:
        """Return the state of a journal's last line; that of the beginning where it has none."""
        last = None
        with path.open("rb") as stream:
            for line in stream:
                last = line
        return cls() if last is None else cls(**json.loads(last))

    def reach(self, source: int) -> None:
        """Note that another portion of the data was turned into tokens, of this file."""
        self.portions = self.portions + 1 if source == self.source else 1
        self.source = source

    def note(self, rows: Rows, lost: int, *, mask: str | None) -> None:
        """Count rows that are in the file now, and tokens that were cut off of them."""
        self.rows += len(rows.lengths)
        self.pieces += int(rows.counts.sum())
        self.tokens += len(rows.ids)
        self.lost += lost
        self.longest = max(self.longest, int(rows.lengths.max(initial=0)))
        if mask is None:
            self.learned += len(rows.ids)
        elif len(rows.lengths):
            starts = np.cumsum(rows.lengths) - rows.lengths
            each = np.add.reduceat(rows.bytes_[mask], starts, dtype=np.int64)
            self.learned += int(each.sum())
            self.unlearned += int((each == 0).sum())
        for label in map(str, rows.words.get("label", ())):
            if label in self.labels or len(self.labels) < _LABELS:
                self.labels[label] = self.labels.get(label, 0) + 1

    def faults(self, policy: Policy) -> Faults:
        """Return the bad rows up to here."""
        found = Faults(policy)
        found.merge(self.faulty)
        return found

    def told(self, policy: Policy) -> dict[str, Any]:
        """Return what about.json says of the split."""
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
            "replaced_rows": faults.replaced,  # of the bad ones: they are there, with U+FFFD
            "bad": [str(fault) for fault in faults.first],
            "labels": self.labels,
        }
