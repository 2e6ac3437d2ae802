"""Golden cases of D10 io_bound."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

from hotloop.core.case.environment import ProcessFacts

LOADER = replace(healthy().loaders[0], workers=4, worker_cpu=0.6, in_memory=False)
BUSY, READS = wall(data_wait=20.0), ProcessFacts(disk_read=90e6)
STEPS = replace(healthy().steps, main_cpu=0.2)
POSITIVE = [
    healthy(wall=BUSY, process=READS, loaders=(LOADER,)),
    healthy(
        wall=BUSY,
        steps=STEPS,
        readings={"read_bytes_per_s": (40e6, 50e6)},
        loaders=(replace(LOADER, workers=0, worker_cpu=None),),
    ),
]
NEGATIVE = [
    healthy(wall=BUSY, process=READS, loaders=(replace(LOADER, worker_cpu=3.9),)),
    healthy(wall=BUSY, process=ProcessFacts(disk_read=1e3), loaders=(LOADER,)),
    healthy(process=READS, loaders=(LOADER,)),
    healthy(wall=BUSY, process=READS, loaders=(replace(LOADER, worker_cpu=None),)),
]
