"""Golden cases of G16 near_oom."""

from tests.golden.cases import on_card

from hotloop.core.case.environment import ProcessFacts

GIB = float(1 << 30)
POSITIVE = [
    on_card(process=ProcessFacts(allocator={"peak": 22.5 * GIB})),
    on_card(process=ProcessFacts(allocator={"peak": 23.8 * GIB})),
]
NEGATIVE = [on_card(process=ProcessFacts(allocator={"peak": 20 * GIB}))]
