"""Golden cases of D7 workers_cpu_full."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(healthy().loaders[0], workers=2, worker_cpu=1.9, in_memory=False)
POSITIVE = [
    healthy(wall=wall(data_wait=10.0), loaders=(LOADER,)),
    healthy(wall=wall(data_wait=10.0), loaders=(replace(LOADER, uses_random=True),)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=10.0), loaders=(replace(LOADER, worker_cpu=1.0),)),
    healthy(loaders=(LOADER,)),
]
