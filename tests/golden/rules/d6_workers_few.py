"""Golden cases of D6 workers_few."""

from dataclasses import replace

from tests.golden.cases import CPU, healthy, wall

EIGHT = replace(CPU, cores=8.0)
LOADER = replace(healthy().loaders[0], workers=2, empty=0.9, worker_cpu=1.95, in_memory=False)
BUSY = wall(data_wait=10.0)
POSITIVE = [
    healthy(wall=BUSY, hardware=EIGHT, loaders=(LOADER,)),
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, worker_cpu=None),)),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(LOADER,)),  # two cores
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, empty=0.1),)),
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, worker_cpu=0.3),)),
    healthy(hardware=EIGHT, loaders=(LOADER,)),
]
