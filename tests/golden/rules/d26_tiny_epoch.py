"""Golden cases of D26 tiny_epoch."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(
    healthy().loaders[0],
    iterations=50,
    first_waits=(0.1,) * 50,
    waits=(0.1, *(0.0001,) * 19) * 50,
)
ENDED = replace(LOADER, first_waits=(0.001,) * 50, last_waits=(0.1,) * 50)
POSITIVE = [
    healthy(wall=wall(data_wait=5.1), loaders=(LOADER,), epochs=50),
    healthy(wall=wall(data_wait=5.1), loaders=(ENDED,), epochs=50),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=5.1), loaders=(replace(LOADER, iterations=2),)),
    healthy(wall=wall(data_wait=5.1), loaders=(replace(LOADER, first_waits=(0.0001,) * 50),)),
    healthy(wall=wall(data_wait=5.1, forward=300.0), loaders=(LOADER,)),
]
