"""Golden cases of G14 compile_loss."""

from tests.golden.cases import healthy, wall

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
