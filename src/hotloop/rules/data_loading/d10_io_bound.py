"""Reading waits for the disk or the network, not for a core.

Looks at: how busy the worker processes are, or the loop without them, and what is read per second.
Says so when: rule D1 speaks, less than half of the time is computing, and 1 MB/s or more is read.
Stays silent when: little is read, or the processes compute (D6, D7).
Remedy: the data on a local disk, in few large files, or in the page cache.
Numbers: bitwise the same.
Seen: examples/planted/disk_bound.py.
Source: gpuprof and SageMaker's IOBottleneck rule; 1 MB/s, to tell reading from sleeping, is ours.
"""

import statistics

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support import data_wait

__all__ = ["RULE"]

IDLE, READS = 0.50, 1e6  # of a core; bytes/s
ALMOST_ALL = 0.5  # share of the wall time, if the loop itself reads the data


def judge(case: Case) -> Finding | None:
    """Look for waits for data with idle cores and a busy disk."""
    loader, read = data_wait.feeding(case), read_per_second(case)
    if loader is None or read is None or read < READS or not data_wait.waits_for_data(case):
        return None
    if loader.workers:
        busy = None if loader.worker_cpu is None else loader.worker_cpu / loader.workers
    else:
        busy = case.steps.main_cpu if case.share("data wait") >= ALMOST_ALL else None
    if busy is None or busy >= IDLE:
        return None
    return data_wait.costs(
        case,
        f"reading waits for the disk: {bytes_(read)}/s arrive and the cores are {busy:.0%} busy",
        case.row("data wait"),
        places=[*data_wait.lines(data_wait.stacks_of(case))[:1], *data_wait.place_of(loader)],
        remedies=[
            Remedy(
                text="copy the data to a local disk, or to /dev/shm where they fit, and read it"
            ),
            code_edit("pack many small files into few large ones"),
        ],
    )


def read_per_second(case: Case) -> float | None:
    """Return the median bytes read from disk per second; None: unknown."""
    readings = case.readings.get("read_bytes_per_s")
    return statistics.median(readings) if readings else case.process.disk_read


RULE = Rule(
    title="The data are waited for at the disk",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
    by_host=True,
)
