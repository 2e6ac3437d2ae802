"""Golden cases of H11 gc."""

from tests.golden.cases import healthy

from hotloop.core.around import Process

POSITIVE = [
    healthy(process=Process(gc_seconds=0.5, gc_full=20, gc_longest=0.03)),
    healthy(process=Process(gc_seconds=0.15, gc_full=100, gc_longest=0.002)),  # 1.3 %
    healthy(process=Process(gc_seconds=0.06, gc_full=1, gc_longest=0.3)),  # one long stall
]
NEGATIVE = [
    healthy(process=Process(gc_seconds=0.05, gc_full=3, gc_longest=0.02)),
    healthy(process=Process(gc_seconds=0.01, gc_full=1, gc_longest=0.2)),
]
