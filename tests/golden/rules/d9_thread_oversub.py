"""Golden cases of D9 thread_oversub."""

from tests.golden.cases import SCRIPT, healthy, on_card

from hotloop.core.case.environment import Process
from hotloop.core.finding import Place

POSITIVE = [
    healthy(process=Process(threads=8, thread_places=(Place(file=SCRIPT, line=9),))),
    healthy(process=Process(threads=2, world=2, throttled=0.6)),
    on_card(process=Process(threads=32)),
]
NEGATIVE = [healthy(process=Process(threads=2)), healthy(process=Process(threads=3))]
