"""One process needs much more memory than the others, and limits the batch for all.

Looks at: the peak of memory of each process.
Says so when: the highest is 20 % above the median (a note) or 30 % (a warning).
Stays silent when: they are alike.
Remedy: let no process load everything to one card (map_location), spread what only rank 0 does.
Numbers: bitwise the same.
Seen: examples/planted/first_rank_late.py.
Source: thresholds of TraceML.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.core.units import bytes_
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case

__all__ = ["RULE"]

NOTE, WARN = 0.20, 0.30  # above the median


def judge(case: Case) -> Finding | None:
    """Compare the highest with the median."""
    peaks = case.process.ranks.get("memory") or (0.0,)
    typical, most = median_low(peaks), max(peaks)
    if typical <= 0 or most < (1 + NOTE) * typical:
        return None
    return Finding(
        rule=RULE.label,
        claim=f"process {peaks.index(most)} needs {bytes_(most)}, the others {bytes_(typical)}",
        severity="warn" if most >= (1 + WARN) * typical else "note",
        remedies=[
            Remedy(text='torch.load(..., map_location="cpu")', effort="code edit"),
            Remedy(text="torch.cuda.set_device(local_rank) before the first tensor"),
        ]
        if case.on_card
        else [
            Remedy(
                text="map what one process alone reads, in place of loading it: "
                'np.load(..., mmap_mode="r"), torch.load(..., mmap=True)',
                effort="code edit",
            )
        ],
    )


RULE = Rule(
    id="M8",
    name="memory_imbalance",
    title="One process needs much more memory",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.RANKS,),
    weight=1,
    numerics="bitwise",
)
