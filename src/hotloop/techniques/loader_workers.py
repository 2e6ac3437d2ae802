"""Loader processes: samples are read, decoded and collated beside the loop, some windows ahead.

What: starts `count` processes that make whole windows in the loop's order and keep `ahead` of them
    ready each; on CUDA the batches are pinned.
Helps when: the data are map-style and a sample costs time: decoding, tokenising, augmenting. The
    table of wall time then shows it as data wait.
Does not help when: the data lie in memory: a batch is handed over from a process in more time than
    it is cut in. It is refused there. On a CPU that trains, the processes take cores from it.
Numbers: bitwise the same: each sample is read with generators seeded by (seed, epoch, index), so
    augmentation does not depend on which process reads it, or on how many there are.
Measured: 16 x 1024 tokens from a memory map: 44 us cut by the loop itself; through torch's
    DataLoader 421 us without and 3,996 us with 2 processes (wall, medians, n 22; 2 cores of an AMD
    EPYC, torch 2.13; benchmarks/feeding.py). Where samples cost time it is not measured here.
Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Host, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session import Session

__all__ = ["TECHNIQUE"]


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """More processes than cores fight for them; no process is no technique."""
    asked = plan.choice("loader-workers") or {}
    count, ahead = asked.get("count", 2), asked.get("ahead", 2)
    if count == 0 or ahead == 0:
        return "no process, or none that is ahead, is the loop making its own batches"
    if hardware.cores is not None and isinstance(count, int) and count > max(1, hardware.cores):
        return f"{count} loader processes on {hardware.cores:g} cores would fight for them"
    return None


def apply(session: Session, *, count: int = 2, ahead: int = 2) -> int:
    """Ask for the processes, unless the data lie in memory."""
    if session.job.train.in_memory or session.workers:
        return 0
    session.workers, session.workers_ahead = count, ahead
    return 1


def read_back(session: Session) -> str | None:
    """Read the slot; the processes start with the first window."""
    if not session.workers:
        return None
    return f"{session.workers} loader processes, {session.workers_ahead} windows ahead each"


TECHNIQUE = Technique(
    id="loader-workers",
    title="Loader processes",
    page=__doc__ or "",
    stage=Stage.LOADER,
    numerics=Numerics.BITWISE,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"count": (2, 1, 4, 8), "ahead": (2, 4, 8)},
    nothing="the data lie in memory, and batches are cut from it in microseconds",
    hosts=frozenset({Host.ENGINE}),
)
