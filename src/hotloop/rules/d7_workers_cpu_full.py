"""The worker processes keep every core busy, so more of them cannot help.

Looks at: the cores the workers kept busy against those this process may use (affinity and quota).
Says so when: rule D1 speaks and they are 90 % of the cores or more.
Stays silent when: cores are free (D6).
Remedy: cheaper samples: read once and keep, a faster format, or the transformation on the card.
Numbers: bitwise the same where samples are kept; other decoders and the card round differently.
Seen: golden case only.
Source: gpuprof, and SageMaker's CPUBottleneck rule (90 %).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Remedy
from hotloop.judging.waiting import costs, feeding, keep_samples, place_of, waits_for_data
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

FULL = 0.90  # of the cores


def judge(case: Case) -> Finding | None:
    """Compare the workers' cores with those there are."""
    loader, cores = feeding(case), case.hardware.cores
    if loader is None or not loader.worker_cpu or cores is None or not waits_for_data(case):
        return None
    if loader.worker_cpu < FULL * cores:
        return None
    return costs(
        case,
        RULE.label,
        f"{loader.workers} workers keep {loader.worker_cpu:.1f} of {cores:g} cores busy and the "
        "loop still waits: more of them cannot help",
        case.row("data wait"),
        places=[*([loader.getitem] if loader.getitem else []), *place_of(loader)],
        remedies=[
            *keep_samples(loader),
            Remedy(
                text="do the deterministic part of reading a sample once, before training",
                effort="code edit",
            ),
        ],
    )


RULE = Rule(
    id="D7",
    name="workers_cpu_full",
    title="No core is left for another worker",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
)
