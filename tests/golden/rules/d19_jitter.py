"""Golden cases of D19 jitter."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(
    healthy().loaders[0], workers=2, waits=((0.0001,) * 9 + (0.02,)) * 100, prefetch_factor=2
)
HANDED = ((0.0008,) * 9 + (0.02,)) * 100  # 8 % of a step of 10 ms to hand a ready batch over
POSITIVE = [
    healthy(wall=wall(data_wait=2.1), loaders=(LOADER,)),
    healthy(wall=wall(data_wait=2.8), loaders=(replace(LOADER, waits=HANDED),)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=2.1), loaders=(replace(LOADER, workers=0),)),
    healthy(wall=wall(data_wait=9.0), loaders=(replace(LOADER, waits=(0.009,) * 1000),)),
    healthy(loaders=(replace(LOADER, waits=((0.0001,) * 9 + (0.001,)) * 100),)),
]
