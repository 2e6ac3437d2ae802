"""Find documents that occur more than once, within and across splits, by digests of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Copies", "copies"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The documents of `split` that are copies of documents of `of`."""

    split: str
    of: str  # the same as `split`: copies of its own earlier documents
    documents: int  # that are copies
    share: float  # of the documents of `split`, 0 to 1
    example: int | None  # index in `split` of a most frequent copy; None: there is no copy
    times: int  # occurrences of the example in both splits together


def copies(digests: Mapping[str, NDArray[np.uint64]]) -> tuple[Copies, ...]:
    """Return the exact copies within each split, then those of each split in an earlier one.

    digests are [documents, 2] for each split, in the order of the splits.
    """
    if not digests:
        return ()
    names = list(digests)
    every = np.concatenate([digests[name] for name in names])
    sizes = [len(digests[name]) for name in names]
    order = np.lexsort((every[:, 1], every[:, 0]))  # stable: copies stay in the order of the data
    same = every[order]
    is_new = np.append(True, (same[1:] != same[:-1]).any(axis=1))[: len(same)]
    group = np.empty(len(every), np.int64)
    group[order] = np.cumsum(is_new) - 1
    groups = dict(zip(names, np.split(group, np.cumsum(sizes)[:-1]), strict=True))
    counts = {name: np.bincount(part, minlength=int(is_new.sum())) for name, part in groups.items()}
    found = []
    for name, count in counts.items():
        times = np.where(count > 1, count, 0)
        found.append(_copies(name, name, groups[name], times, int((times - (times > 0)).sum())))
    for earlier, later in combinations(names, 2):
        theirs, mine = counts[earlier], counts[later]
        times = np.where((mine > 0) & (theirs > 0), mine + theirs, 0)
        found.append(_copies(later, earlier, groups[later], times, int(mine[times > 0].sum())))
    return tuple(found)


def _copies(
    split: str, of: str, part: NDArray[np.int64], times: NDArray[np.int64], documents: int
) -> Copies:
    """Return the copies for the group of each document and the occurrences of each group."""
    most = int(times.max(initial=0))
    return Copies(
        split=split,
        of=of,
        documents=documents,
        share=documents / max(1, len(part)),
        example=int(np.argmax(part == times.argmax())) if most else None,
        times=most,
    )
