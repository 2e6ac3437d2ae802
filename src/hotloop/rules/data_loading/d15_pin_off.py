"""Batches go to the GPU from memory that is not pinned.

Looks at: pin_memory of the loader, whether its batches are pinned, and the row "host to device".
Says so when: they are not and copying is 2 % of the wall time or more.
Stays silent when: batches are made on the GPU.
Remedy: pin_memory=True; with non_blocking=True the copy runs beside the computing.
Numbers: bitwise the same.
Seen: golden case only; not yet seen on a GPU.
Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html (2026-11).
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule
from hotloop.rules.support.data_wait import costs, feeding, place_of, with_workers

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare the setting with what copying costs."""
    loader, seconds = feeding(case), case.row("host to device")
    if loader is None or loader.pin_memory or loader.pinned or case.part(seconds) < ABSTAIN:
        return None
    text = "DataLoader(pin_memory=True), and .to(device, non_blocking=True)"
    return costs(
        case,
        f"batches go to the GPU from pageable memory, {case.part(seconds):.0%} of the time",
        seconds,
        places=place_of(loader),
        remedies=[with_workers(case, loader, text, pin=True)],
    )


RULE = Rule(
    title="Batches are copied from pageable memory",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER, Needs.GPU),
    under="D17",
    weight=2,
    numerics="bitwise",
)
