"""Golden cases of D1 data_wait."""

from dataclasses import replace

from tests.golden.cases import PLANNED, healthy, planned, wall

from hotloop.core.case.environment import Ceiling

LOADER = healthy().loaders[0]
POSITIVE = [
    healthy(wall=wall(data_wait=5.0), loaders=(replace(LOADER, waits=(0.005,) * 1000),)),
    healthy(
        wall=wall(data_wait=0.8),
        loaders=(),
    ),
    healthy(
        wall=wall(data_wait=9.0),
        loaders=(),
        ceilings=(Ceiling(name="compute", factor=1.7, step_time=(0.01,)),),
    ),
    healthy(wall=wall(data_wait=5.0), loaders=(replace(LOADER, workers=2),)),
    healthy(wall=wall(data_wait=5.0), loaders=(replace(LOADER, iterable=True),)),
]
NEGATIVE = [healthy(wall=wall(data_wait=0.4))]

# Before a run.
SHARES = PLANNED.time.rows
POSITIVE += [
    planned(time={"rows": {**SHARES, "data wait": 8.0}}),
    planned(time={"rows": {**SHARES, "data wait": 30.0}}, data={"in_memory": False}),
]
NEGATIVE += [
    planned(time={"rows": {**SHARES, "data wait": 4.0}}),
    planned(time=None),
]
