"""Golden cases of D6 workers_few."""

from dataclasses import replace

from tests.golden.cases import CPU, healthy, wall

EIGHT = replace(CPU, cores=8.0)
LOADER = replace(healthy().loaders[0], workers=2, empty=0.9, worker_cpu=1.95, in_memory=False)
USED = {"cpu_cores": (2.1, 2.2, 2.3)}
BUSY = wall(data_wait=10.0)
POSITIVE = [
    healthy(wall=BUSY, hardware=EIGHT, loaders=(LOADER,), readings=USED),
    healthy(
        wall=BUSY,  # on two cores, where the loop mostly waits
        loaders=(replace(LOADER, workers=1, worker_cpu=0.95),),
        readings={"cpu_cores": (1.1, 1.2, 1.3)},
    ),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(LOADER,), readings={"cpu_cores": (1.95, 2.0)}),
    healthy(wall=BUSY, hardware=EIGHT, loaders=(LOADER,)),  # not known
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, worker_cpu=None),), readings=USED),
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, empty=0.1),), readings=USED),
    healthy(wall=BUSY, hardware=EIGHT, loaders=(replace(LOADER, worker_cpu=0.3),), readings=USED),
    healthy(hardware=EIGHT, loaders=(LOADER,), readings=USED),
]
