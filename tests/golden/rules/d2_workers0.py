"""Golden cases of D2 workers0."""

from dataclasses import replace

from tests.golden.cases import CPU, healthy, wall

LOADER = healthy().loaders[0]
SLOW = replace(LOADER, waits=(0.03,) * 1000, items=(0.001,) * 64, in_memory=False)
POSITIVE = [
    healthy(wall=wall(data_wait=30.0), loaders=(SLOW,)),
    healthy(wall=wall(data_wait=30.0), loaders=(replace(SLOW, items=(), uses_random=False),)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=30.0), loaders=(replace(SLOW, workers=2),)),
    healthy(wall=wall(data_wait=30.0), loaders=(replace(SLOW, items=(1e-5,) * 64),)),
    healthy(wall=wall(data_wait=30.0), loaders=(replace(SLOW, in_memory=True),)),
    healthy(wall=wall(data_wait=30.0), loaders=(SLOW,), hardware=replace(CPU, cores=1.0)),
    healthy(loaders=(SLOW,)),
]
