"""The shared memory through which workers hand over batches is nearly full.

Looks at: the most of /dev/shm that was used after a step, in a run with worker processes.
Says so when: it is above 80 %; above 95 % is critical, the next batch may end the run. Before a
    run: all of it is smaller than 1 GiB (a warning below 256 MiB).
Stays silent when: no loader has workers.
Remedy: a larger /dev/shm, or fewer batches in it; both of torch's sharing strategies use it.
Numbers: nothing.
Seen: examples/planted/loader_small_shm.py, in a /dev/shm of 64 MB.
Source: https://docs.pytorch.org/docs/stable/multiprocessing.html#sharing-strategies (2026-11).
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit, option
from hotloop.rules.support.data_wait import place_of

__all__ = ["RULE"]

FULL, LAST = 0.80, 0.95
SMALL, TINY = 1 << 30, 256 << 20  # bytes; Docker gives 64 MiB


def judge(case: Case) -> Finding | None:
    """Report how full /dev/shm is."""
    used = case.process.shm_used
    loader = max(case.loaders, key=lambda candidate: candidate.workers, default=None)
    if used is None or used <= FULL or loader is None or not loader.workers:
        return None
    return Finding(
        claim=f"/dev/shm is {used:.0%} full, and {loader.workers} workers hand batches over in it",
        severity="critical" if used > LAST else "warn",
        places=place_of(loader),
        remedies=[
            Remedy(text=f"prefetch_factor=1 or num_workers={max(1, loader.workers // 2)}"),
            Remedy(text="docker run --shm-size=8g, or mount -o remount,size=8G /dev/shm"),
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    size = None if planned.machine is None else planned.machine.shm_bytes
    if size is None or size >= SMALL:
        return None
    return Finding(
        claim=f"/dev/shm has {bytes_(size)}: worker processes hand over batches in it, and end "
        'with "bus error" or "no space left" when it is full',
        severity="warn" if size < TINY else "note",
        remedies=[
            option("docker run --shm-size=8g, or --ipc=host"),
            code_edit('torch.multiprocessing.set_sharing_strategy("file_system")'),
        ],
    )


RULE = Rule(
    title="Shared memory is nearly full",
    judge=judge,
    needs=(Needs.LOADER,),
    before_run=_before_run,
    by_host=True,
)
