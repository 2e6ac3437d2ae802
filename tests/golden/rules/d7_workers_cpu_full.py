"""Golden cases of D7 workers_cpu_full."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(healthy().loaders[0], workers=2, worker_cpu=1.6, in_memory=False)
FULL = {"cpu_cores": (1.9, 1.95, 2.0)}  # of two
BUSY = wall(data_wait=10.0)
POSITIVE = [
    healthy(wall=BUSY, loaders=(LOADER,), readings=FULL),
    healthy(wall=BUSY, loaders=(replace(LOADER, uses_random=True),), readings=FULL),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(LOADER,), readings={"cpu_cores": (1.7,)}),
    healthy(wall=BUSY, loaders=(replace(LOADER, worker_cpu=0.9),), readings=FULL),  # the loop's
    healthy(wall=BUSY, loaders=(LOADER,)),  # not known
    healthy(loaders=(LOADER,), readings=FULL),
]
