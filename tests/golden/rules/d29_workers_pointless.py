"""Golden cases of D29 workers_pointless."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

POSITIVE = [healthy(wall=wall(data_wait=0.4))]
NEGATIVE = [
    healthy(wall=wall(data_wait=5.0)),
    healthy(wall=wall(data_wait=0.4), loaders=(replace(healthy().loaders[0], workers=2),)),
]
