"""The page cache was cold: the first part of the run is slower than the rest will be.

Looks at: the bytes read per second and the step times of the first and the last third.
Says so when: the first third read three times as much as the last or more, and its steps took 1.2
    times as long. It is a note: it says which part to judge by.
Stays silent when: less than 1 MB/s was read.
Remedy: nothing, or reading the files once before the start.
Numbers: nothing.
Seen: examples/planted/disk_cold.py.
Source: gpuprof for the threefold; 1.2 times is ours.
"""

import statistics

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]

READ, SLOWER, LEAST = 3.0, 1.2, 1e6  # first third over last; bytes/s


def judge(case: Case) -> Finding | None:
    """Compare the first third with the last."""
    read, wall = case.readings.get("read_bytes_per_s", ()), case.steps.wall
    third, part = len(read) // 3, len(wall) // 3
    if third < 3 or part < 3:
        return None
    first, last = statistics.fmean(read[:third]), statistics.fmean(read[-third:])
    cold, warm = statistics.median(wall[:part]), statistics.median(wall[-part:])
    if first < LEAST or first < READ * last or cold < SLOWER * warm:
        return None
    return Finding(
        claim=f"the files came from the disk at first: a step took {cold / warm:.1f} times as long "
        "as at the end",
        severity="note",
        evidence={"read at first": f"{bytes_(first)}/s", "at the end": f"{bytes_(last)}/s"},
        remedies=[
            Remedy(text="judge by a later epoch (--steps N), or cat the files to /dev/null before")
        ],
    )


RULE = Rule(
    title="The first epoch reads from the disk, later ones from memory",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="machine",
    by_host=True,
)
