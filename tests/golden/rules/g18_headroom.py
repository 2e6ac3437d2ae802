"""Golden cases of G18 headroom."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu, planned

from hotloop.core.case.environment import ProcessFacts

GIB = float(1 << 30)
roomy = ProcessFacts(allocator={"peak": 8 * GIB})
many = replace(healthy().steps, backwards=4.0)
POSITIVE = [
    on_gpu(process=roomy, steps=many),
    on_gpu(process=roomy, steps=replace(healthy().steps, starved=0.9)),
]
NEGATIVE = [
    on_gpu(process=roomy),
    on_gpu(process=ProcessFacts(allocator={"peak": 16 * GIB}), steps=many),
    on_gpu(process=ProcessFacts(allocator={"peak": 13 * GIB}), steps=many),  # twice does not fit
    on_gpu(steps=many),
]

# Before a run.
POSITIVE += [
    planned(on_gpu(), memory={"peak_bytes": 1 << 30}, settings={"accumulation": 4}),
]
NEGATIVE += [
    planned(on_gpu(), memory={"peak_bytes": 1 << 30}),
    planned(on_gpu(), settings={"accumulation": 4}),
    planned(memory={"peak_bytes": 1}, settings={"accumulation": 4}),
]
