"""Golden cases of H24 returned_memory."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.experiment import Experiment

# Of a step of 0.01 s: 2 ms.
FAULTS = ProcessFacts(page_faults=4000.0, fault_seconds=5e-7)
FASTER = Experiment(
    name="kept memory",
    what="with freed memory kept by the process",
    blocks=12,
    steps=60,
    gain=1.3,
    low=1.25,
    high=1.35,
)
FEW = replace(FAULTS, page_faults=300.0)
POSITIVE = [
    healthy(process=FAULTS),
    healthy(process=FEW, experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(process=FEW),
    healthy(process=replace(FAULTS, page_faults=None)),
    healthy(process=FAULTS, techniques={"kept-memory": {}}),
]
KNOWN = [(POSITIVE[1], "measured")]
