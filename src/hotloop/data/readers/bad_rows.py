"""Record where the bad rows of a data set are, why they are bad, and what happens to them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hotloop.core.errors import DataError
from hotloop.data.readers.advised_options import Said, said

__all__ = ["LISTED", "NOT_UTF8", "BadRow", "Faults", "Policy", "RowLocation", "not_utf8"]

Policy = Literal["stop", "skip", "replace"]  # what to do with a bad row

LISTED = 20  # faults that are kept and shown; the others are counted
NOT_UTF8 = "not UTF-8"  # the kind whose rows `replace` keeps, with U+FFFD


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return which byte is not UTF-8, and why."""
    return f"0x{error.object[error.start]:02x}, {error.reason}"


class RowLocation(NamedTuple):
    """The location of a row, or of a value in it; a tuple, because there is one for each row.

    (A frozen dataclass takes 1.1 us to make and this 0.4, of the 1.4 that a row of SNLI takes to
    parse: AMD EPYC, Python 3.11, 2026-11.)
    """

    file: str
    line: int | None = None  # from 1
    byte: int | None = None  # in the line, from 1
    key: str | None = None
    row: int | None = None  # from 0, as in `datasets` and pandas: where there are no lines

    def __str__(self) -> str:
        """Return `file:line:byte: key`, without what is unknown."""
        where = ":".join(str(part) for part in self[:3] if part is not None)
        rest = (None if self.row is None else f"row {self.row}", self.key)
        return ": ".join([where, *(part for part in rest if part is not None)])


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """One bad row."""

    place: RowLocation
    kind: str  # a few words that are the same for all rows of a kind, and by which they are counted
    why: str

    def __str__(self) -> str:
        """Return the place and the reason, on one line."""
        return f"{self.place}: {self.why}"


class Faults:
    """Collect bad rows: the first LISTED of them, and the number of each kind.

    `plain()` carries the rows of a worker process to `merge`. If they are merged in the order of
    the data, the first ones are the same for any number of workers.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy: Policy = policy
        self.first: list[BadRow] = []
        self.kinds: Counter[str] = Counter()
        self.replaced = 0  # rows that are kept with U+FFFD in them

    @property
    def count(self) -> int:
        """Return the number of bad rows."""
        return self.kinds.total()

    def add(self, place: RowLocation, kind: str, why: str, *, replaceable: bool = False) -> bool:
        """Record a bad row; return whether the caller is to keep it, with a replacement.

        A row is kept under the policy "replace" if it is `replaceable`. Under "stop" the caller
        reads on, so that the error can list all bad rows.
        """
        self.kinds[kind] += 1
        if len(self.first) < LISTED:
            self.first.append(BadRow(place=place, kind=kind, why=why))
        stays = replaceable and self.policy == "replace"
        self.replaced += stays
        return stays

    def plain(self) -> dict[str, Any]:
        """Return the value for `merge`: numbers, strings, lists and a dict, as JSON can hold."""
        return {
            "first": [[*fault.place, fault.kind, fault.why] for fault in self.first],
            "kinds": dict(self.kinds),
            "replaced": self.replaced,
        }

    def merge(self, plain: Mapping[str, Any]) -> None:
        """Add the bad rows of another process, which read the data that come next."""
        for *place, kind, why in plain["first"][: LISTED - len(self.first)]:
            self.first.append(BadRow(place=RowLocation(*place), kind=kind, why=why))
        self.kinds.update(plain["kinds"])
        self.replaced += plain["replaced"]

    def raise_if_any(self, by: Said) -> None:
        """Raise DataError under the policy "stop" if there is a bad row; it lists the first ones.

        `by` maps options to the user's words.
        """
        if self.policy != "stop" or not self.count:
            return
        remedy = "correct them"
        if (skip := said("--bad skip", by)) is not None:
            remedy += f", or leave them out ({skip})"
        if self.kinds[NOT_UTF8] and (replace := said("--bad replace", by)) is not None:
            remedy += f", or put U+FFFD for what is not UTF-8 ({replace})"
        raise DataError(f"{self}{self.listed}; {remedy}")

    @property
    def listed(self) -> str:
        """Return the first bad rows, a line each, as they follow the count in a message."""
        lines = "".join(f"\n  {fault}" for fault in self.first)
        return f", at file:line:byte{lines}\n({len(self.first)} of {self.count} listed)"

    def __str__(self) -> str:
        """Return "5 bad rows: 3 not JSON, 2 not UTF-8 (2 kept with U+FFFD)"."""
        rows = f"{self.count} bad row{'s' * (self.count != 1)}"
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common())
        replaced = f" ({self.replaced} kept with U+FFFD)" if self.replaced else ""
        return f"{rows}: {kinds}{replaced}" if kinds else rows
