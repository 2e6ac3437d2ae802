"""Golden cases of D4 per_sample_index."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(healthy().loaders[0], waits=(0.001,) * 1000)
BUSY = wall(data_wait=3.0)
POSITIVE = [
    healthy(wall=BUSY, loaders=(LOADER,)),
    healthy(wall=BUSY, loaders=(replace(LOADER, items=(2e-6,) * 64),)),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(replace(LOADER, vectorised=True),)),
    healthy(wall=BUSY, loaders=(replace(LOADER, collate="collate"),)),
    healthy(wall=BUSY, loaders=(replace(LOADER, in_memory=None),)),
    healthy(wall=wall(data_wait=0.6), loaders=(LOADER,)),
]
