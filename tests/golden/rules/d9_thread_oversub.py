"""Golden cases of D9 thread_oversub."""

from tests.golden.cases import SCRIPT, healthy, on_gpu

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.finding import SourceLocation

POSITIVE = [
    healthy(process=ProcessFacts(threads=8, thread_places=(SourceLocation(file=SCRIPT, line=9),))),
    healthy(process=ProcessFacts(threads=2, world=2, throttled=0.6)),
    on_gpu(process=ProcessFacts(threads=32)),
]
NEGATIVE = [healthy(process=ProcessFacts(threads=2)), healthy(process=ProcessFacts(threads=3))]
