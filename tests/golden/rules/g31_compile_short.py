"""Golden cases of G31 compile_short."""

from tests.golden.cases import healthy

from hotloop.core.around import Process

POSITIVE = [healthy(planned_steps=1000)]
NEGATIVE = [
    healthy(planned_steps=100_000),
    healthy(planned_steps=1000, process=Process(graphs=1)),
]
