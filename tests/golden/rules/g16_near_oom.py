"""Golden cases of G16 near_oom."""

from tests.golden.cases import on_gpu, planned

from hotloop.core.case.environment import ProcessFacts

GIB = float(1 << 30)
POSITIVE = [
    on_gpu(process=ProcessFacts(allocator={"peak": 22.5 * GIB})),
    on_gpu(process=ProcessFacts(allocator={"peak": 23.8 * GIB})),
]
NEGATIVE = [on_gpu(process=ProcessFacts(allocator={"peak": 20 * GIB}))]

# Before a run.
POSITIVE += [
    planned(on_gpu(), memory={"advice": "expect an out of memory"}),
    planned(on_gpu(), memory={"peak_bytes": 25 << 30, "advice": "expect an out of memory"}),
    planned(memory={"halved": "out of memory with a micro batch of 6"}),
]
NEGATIVE += [
    planned(on_gpu()),
]
