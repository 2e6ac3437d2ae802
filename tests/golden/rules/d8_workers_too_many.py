"""Golden cases of D8 workers_too_many."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(healthy().loaders[0], workers=8)
POSITIVE = [
    healthy(loaders=(LOADER,)),  # a note
    healthy(wall=wall(data_wait=10.0), loaders=(LOADER,)),
]
NEGATIVE = [
    healthy(loaders=(replace(LOADER, workers=2),)),
    healthy(loaders=(replace(LOADER, role="evaluate"),)),
]
