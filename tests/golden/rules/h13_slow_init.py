"""Golden cases of H13 slow_init."""

from tests.golden.cases import PLANNED, SCRIPT, healthy, planned, stack, wall

READ = stack("data load", 30.0, (SCRIPT, 12, "load"), (SCRIPT, 60, "<module>"))
POSITIVE = [
    healthy(wall=wall(data_load=30.0, forward=100.0), stacks=(READ,)),
    healthy(wall=wall(data_load=1500.0), stopped="after 1,000 steps"),  # by itself too long
    healthy(  # 60 s of 0.6 ks
        wall=wall(compile=60.0), stopped="after 1,000 steps", planned_steps=50_000
    ),
]
NEGATIVE = [
    healthy(wall=wall(data_load=10.0)),  # a short run
    healthy(wall=wall(data_load=60.0), stopped="after 1,000 steps"),  # of a run of unknown length
    healthy(wall=wall(data_load=60.0), stopped="after 1,000 steps", planned_steps=1_000_000),
    healthy(wall=wall(data_load=3.0, forward=100.0)),
]

# Before a run.
SHARES = PLANNED.time.rows
POSITIVE += [
    planned(time={"rows": {**SHARES, "start": 30.0}}),
    planned(time={"rows": {**SHARES, "start": 1200.0, "step": 36_000.0}}),
]
NEGATIVE += [
    planned(time={"rows": {**SHARES, "start": 10.0}}),
    planned(time={"rows": {"start": 29.0, "step": 30.0}}),
    planned(time=None),
]
