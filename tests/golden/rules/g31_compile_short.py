"""Golden cases of G31 compile_short."""

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts

POSITIVE = [healthy(planned_steps=1000, stopped="enough was seen")]
NEGATIVE = [
    healthy(planned_steps=100_000, stopped="enough was seen"),
    healthy(planned_steps=1000, stopped="enough was seen", process=ProcessFacts(graphs=1)),
]
