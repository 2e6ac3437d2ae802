"""Golden cases of G14 compile_loss."""

from tests.golden.cases import PLANNED, healthy, planned, wall

from hotloop.core.case.environment import ProcessFacts

compiled = ProcessFacts(graphs=1, compile_seconds=12.0)
POSITIVE = [
    healthy(process=compiled, wall=wall(compile=12.0)),
    healthy(  # 12 of 60 s
        process=compiled, wall=wall(compile=12.0), planned_steps=4000, stopped="after 1,000 steps"
    ),
]
NEGATIVE = [
    healthy(
        process=compiled, wall=wall(compile=12.0), planned_steps=90_000, stopped="after 1,000 steps"
    ),
    healthy(process=compiled, wall=wall(compile=12.0), stopped="after 1,000 steps"),
    healthy(wall=wall(compile=12.0)),  # nothing was compiled by Dynamo
]

# Before a run.
SHARES = PLANNED.time.rows
POSITIVE += [
    planned(time={"rows": {**SHARES, "compile": 20.0}}),
    planned(time={"rows": {**SHARES, "compile": 90.0}}),
]
NEGATIVE += [
    planned(time={"rows": {**SHARES, "compile": 9.0}}),
    planned(time=None),
]
