"""Golden cases of H11 gc."""

from tests.golden.cases import SCRIPT, healthy, stack

from hotloop.core.case.environment import ProcessFacts

ASKED = """
import gc
for batch in loader:
    model(batch).backward()
    gc.collect()
"""
POSITIVE = [
    healthy(process=ProcessFacts(gc_seconds=0.5, gc_full=20, gc_longest=0.03)),
    healthy(process=ProcessFacts(gc_seconds=0.15, gc_full=100, gc_longest=0.002)),  # 1.3 %
    healthy(process=ProcessFacts(gc_seconds=0.06, gc_full=1, gc_longest=0.3)),  # one long stall
]
NEGATIVE = [
    healthy(process=ProcessFacts(gc_seconds=0.05, gc_full=3, gc_longest=0.02)),
    healthy(process=ProcessFacts(gc_seconds=0.01, gc_full=1, gc_longest=0.2)),
    healthy(  # the script's own calls: H5
        process=ProcessFacts(gc_seconds=2.0, gc_full=1000, gc_longest=0.01),
        sources={SCRIPT: ASKED},
        stacks=(stack("after step", 2.0, (SCRIPT, 5, "<module>")),),
    ),
]
