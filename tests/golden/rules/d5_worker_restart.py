"""Golden cases of D5 worker_restart."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(
    healthy().loaders[0],
    workers=2,
    iterations=20,
    first_waits=(0.3,) * 20,
    waits=(0.3, *(0.0001,) * 49) * 20,
)
ENDED = replace(LOADER, first_waits=(0.02,) * 20, last_waits=(0.2,) * 20)
POSITIVE = [
    healthy(wall=wall(data_wait=6.1), loaders=(LOADER,)),
    healthy(wall=wall(data_wait=4.5), loaders=(ENDED,)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=6.1), loaders=(replace(LOADER, persistent=True),)),
    healthy(wall=wall(data_wait=6.1), loaders=(replace(LOADER, first_waits=(0.3,)),)),
    healthy(wall=wall(data_wait=6.1), loaders=(replace(LOADER, first_waits=(0.0001,) * 20),)),
]
