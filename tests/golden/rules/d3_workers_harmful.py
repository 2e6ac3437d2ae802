"""Golden cases of D3 workers_harmful."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

from hotloop.core.case.experiment import Experiment

LOADER = healthy().loaders[0]
SHIPPED = replace(LOADER, workers=2, waits=(0.01,) * 1000)
READ = replace(SHIPPED, in_memory=False)
FASTER = Experiment(name="no workers", what="without", gain=1.4, low=1.3, high=1.5, steps=40)
POSITIVE = [
    healthy(wall=wall(data_wait=10.0), loaders=(SHIPPED,)),
    healthy(wall=wall(data_wait=10.0), loaders=(READ,), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(wall=wall(data_wait=10.0), loaders=(READ,)),
    healthy(
        wall=wall(data_wait=10.0),
        loaders=(READ,),
        experiments=(replace(FASTER, gain=0.9, low=0.8, high=0.95),),
    ),
    healthy(wall=wall(data_wait=10.0)),  # D4's
    healthy(wall=wall(data_wait=0.4), loaders=(SHIPPED,)),
]
