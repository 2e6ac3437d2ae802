"""Golden cases of D3 workers_harmful."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = healthy().loaders[0]
SHIPPED = replace(LOADER, workers=2, waits=(0.01,) * 1000)
POSITIVE = [healthy(wall=wall(data_wait=10.0), loaders=(SHIPPED,))]
NEGATIVE = [
    healthy(wall=wall(data_wait=10.0), loaders=(replace(SHIPPED, in_memory=False),)),
    healthy(wall=wall(data_wait=10.0)),  # D4's
    healthy(wall=wall(data_wait=0.4), loaders=(SHIPPED,)),
]
