"""Each epoch reads all data from the disk again, because they do not fit in memory.

Looks at: the page cache, and the bytes read per second in the last third of the run.
Says so when: the second epoch or a later one is reached, the cache fills 40 % of the memory, 100
    MB/s or more are still read, and the loop waits 2 % of the time or more.
Stays silent when: later epochs read from memory.
Remedy: fewer bytes: a smaller format, 16 bits, smaller pictures; or shards read in order.
Numbers: bitwise the same with another container; other formats may round.
Seen: golden case only; it takes data as large as 40 % of the memory, which no small script writes.
Source: gpuprof.
"""

import statistics

from hotloop.core.units import bytes_
from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import costs, feeding, place_of

__all__ = ["RULE"]

CACHE, READS = 0.40, 100e6  # of the memory; bytes/s


def judge(case: Case) -> Finding | None:
    """Look for disk reads that continue although the cache is full."""
    cache, read = case.process.page_cache, case.readings.get("read_bytes_per_s", ())
    late = statistics.fmean(read[-max(1, len(read) // 3) :]) if read else 0.0
    if case.epochs < 2 or cache is None or cache < CACHE or late < READS:
        return None
    if case.share("data wait") < ABSTAIN:
        return None
    return costs(
        case,
        f"{bytes_(late)}/s are read from the disk in epoch {case.epochs} too: the data do not fit "
        "in the page cache",
        case.row("data wait"),
        places=place_of(feeding(case)),
        evidence={"page cache": f"{cache:.0%} of the memory"},
        remedies=[
            code_edit("store fewer bytes a sample: 8 or 16 bits, or smaller"),
            code_edit("read large shards in order, shuffle inside them"),
        ],
    )


RULE = Rule(
    title="The data do not fit in the page cache",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    by_host=True,
)
