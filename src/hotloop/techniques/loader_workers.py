"""Loader processes: samples are read, decoded and collated beside the loop, some batches ahead.

What: starts `count` processes that make whole batches in the loop's order and keep `ahead` of them
    ready each; on CUDA the batches are pinned. A script's DataLoader gets them before its first
    iteration, keeps them from epoch to epoch, and draws from the generators what it drew before.
Helps when: the data are map-style and a sample costs time: decoding, tokenising, augmenting. The
    table of wall time then shows it as data wait.
Does not help when: the data lie in memory: a batch is handed over from a process in more time than
    it is cut in. It is refused there. On a CPU that trains, the processes take cores from it.
Numbers: bitwise the same. In hotloop's engine each sample is read with generators seeded by (seed,
    epoch, index). In a script the first batch is read in a copy of the process first: where that
    draws from a generator, the technique is refused. An error in a worker reaches the script with
    the worker's traceback in its message.
Measured: 16 x 1024 tokens from a memory map: 44 us cut by the loop itself; through torch's
    DataLoader 421 us without and 3,996 us with 2 processes (wall, medians, n 22; 2 cores of an AMD
    EPYC, torch 2.13; benchmarks/feeding.py). Where samples cost time it is not measured here.
Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.probe.tryread import Tried
    from hotloop.session import Session

__all__ = ["TECHNIQUE"]

ID = "loader-workers"
# Below these a batch is handed over in more time than it is made in (see Measured; D3 in rules).
FAST_SAMPLE, FAST_BATCH = 20e-6, 1e-3  # seconds


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """More processes than cores fight for them; no process is no technique."""
    asked = plan.choice(ID) or {}
    count, ahead = asked.get("count", 2), asked.get("ahead", 2)
    if count == 0 or ahead == 0:
        return "no process, or none that is ahead, is the loop making its own batches"
    if hardware.cores is not None and isinstance(count, int) and count > max(1, hardware.cores):
        return f"{count} loader processes on {hardware.cores:g} cores would fight for them"
    return None


def apply(session: Session | ScriptSession, *, count: int = 2, ahead: int = 2) -> int:
    """Ask for the processes, unless the data lie in memory; return 1 where they were."""
    if isinstance(session, ScriptSession):
        return _put_into(session, count, ahead)
    if session.job.train.in_memory or session.workers:
        return 0
    session.workers, session.workers_ahead = count, ahead
    return 1


def _put_into(session: ScriptSession, count: int, ahead: int) -> int:
    """Give a script's loader its processes, if that changes nothing that is read."""
    from hotloop.probe.tryread import try_reading
    from hotloop.probe.workers import Workers

    loader = session.loader
    if loader.num_workers:
        session.refused = f"the script has {loader.num_workers} worker processes itself"
        return 0
    session.refused = _unfit(loader)
    if session.refused is None:
        tried = try_reading(loader)
        session.refused = tried if isinstance(tried, str) else _why_not(tried)
    if session.refused is not None:
        return 0
    pin = session.hardware.device == "cuda"
    session.feeds[ID] = Workers(loader, count=count, ahead=ahead, pin=pin)
    return 1


def _unfit(loader: object) -> str | None:
    """Return why this kind of loader must be left alone."""
    from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

    from hotloop.probe.tryread import can_fork

    assert isinstance(loader, DataLoader)
    if isinstance(loader.dataset, IterableDataset):
        return "an iterable data set is read whole by every process, or divided into another order"
    if isinstance(loader.dataset, MapDataPipe):
        return "a data pipe has a random stream of its own, which is not looked at"
    if not can_fork():
        return "without fork a process cannot be proved to read the same samples"
    return None


def _why_not(tried: Tried) -> str | None:
    """Return why other processes would be no gain, or would read something else."""
    if tried.moved:
        return f"reading samples draws from {', '.join(tried.moved)}: others would be drawn"
    if tried.ahead:
        return f"the sampler draws from {', '.join(tried.ahead)} between batches: others than now"
    if tried.unsent is not None:
        return f"a batch cannot be sent from one process to another: {tried.unsent}"
    if tried.seconds < FAST_SAMPLE or tried.batch_seconds < FAST_BATCH:
        return (
            f"the data lie in memory: a batch is made in {tried.batch_seconds * 1e6:,.0f} us, "
            "and would take longer from another process"
        )
    return None


def read_back(session: Session | ScriptSession) -> str | None:
    """Read the slot, or the loader's own options; the processes start with the first batch."""
    if isinstance(session, ScriptSession):
        if ID not in session.feeds:
            return None
        loader = session.loader
        kept = "kept over epochs" if loader.persistent_workers else "started at each epoch"
        return (
            f"{loader.num_workers} loader processes, {loader.prefetch_factor} batches ahead each, "
            f"{kept}"
        )
    if not session.workers:
        return None
    return f"{session.workers} loader processes, {session.workers_ahead} windows ahead each"


TECHNIQUE = Technique(
    id=ID,
    title="Loader processes",
    page=__doc__ or "",
    stage=Stage.LOADER,
    numerics=Numerics.BITWISE,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"count": (2, 1, 4, 8), "ahead": (2, 4, 8)},
    nothing="the data lie in memory, and batches are cut from it in microseconds",
    excludes=frozenset({"sample-cache"}),
)
