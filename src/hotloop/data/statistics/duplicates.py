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
    within = [_within(name, groups[name], counts[name]) for name in names]
    across = [
        _across(later, earlier, groups[later], counts[later], counts[earlier])
        for earlier, later in combinations(names, 2)
    ]
    return (*within, *across)


def _within(name: str, part: NDArray[np.int64], count: NDArray[np.int64]) -> Copies:
    repeated = int((count[count > 1] - 1).sum())
    most = int(count.max(initial=0))
    example = int(np.argmax(part == count.argmax())) if most > 1 else None
    return Copies(
        split=name,
        of=name,
        documents=repeated,
        share=repeated / max(1, len(part)),
        example=example,
        times=most if most > 1 else 0,
    )


def _across(
    later: str,
    earlier: str,
    part: NDArray[np.int64],
    mine: NDArray[np.int64],
    theirs: NDArray[np.int64],
) -> Copies:
    shared = np.where((mine > 0) & (theirs > 0), mine + theirs, 0)
    times = int(shared.max(initial=0))
    copied = int(mine[shared > 0].sum())
    return Copies(
        split=later,
        of=earlier,
        documents=copied,
        share=copied / max(1, len(part)),
        example=int(np.argmax(part == shared.argmax())) if times else None,
        times=times,
    )
