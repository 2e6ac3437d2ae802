"""One process needs much more memory than the others, and limits the batch for all.

Looks at: the peak of memory of each process.
Says so when: the highest is 20 % above the median (a note) or 30 % (a warning).
Stays silent when: they are alike.
Remedy: let no process load everything to one GPU (map_location), spread what only rank 0 does; of
    hotloop train a smaller micro batch, where that process runs out.
Numbers: bitwise the same.
Seen: examples/planted/first_rank_late.py.
Source: thresholds of TraceML.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

NOTE, WARN = 0.20, 0.30  # above the median


def judge(case: Case) -> Finding | None:
    """Compare the highest with the median."""
    peaks = case.process.ranks.get("memory") or (0.0,)
    typical, most = median_low(peaks), max(peaks)
    if typical <= 0 or most < (1 + NOTE) * typical:
        return None
    rank = case.process.rank_at(peaks.index(most))
    return Finding(
        claim=f"{case.process.named(rank)} needs {bytes_(most)}, the others {bytes_(typical)}",
        severity="warn" if most >= (1 + WARN) * typical else "note",
        remedies=list(_remedies(case, rank)),
    )


def _remedies(case: Case, rank: int) -> Iterator[Remedy]:
    if case.by_hotloop:
        alone = "it alone saves" if rank == 0 else "its rows may be longer"
        yield Remedy(text=f"a smaller micro batch for all, should it run out of memory: {alone}")
    elif case.on_gpu:
        yield code_edit('torch.load(..., map_location="cpu")')
        yield Remedy(text="torch.cuda.set_device(local_rank) before the first tensor")
    else:
        yield code_edit(
            "map what one process alone reads, in place of loading it: "
            'np.load(..., mmap_mode="r"), torch.load(..., mmap=True)'
        )


RULE = Rule(
    title="One process needs much more memory",
    judge=judge,
    needs=(Needs.RANKS,),
    numerics="bitwise",
)
