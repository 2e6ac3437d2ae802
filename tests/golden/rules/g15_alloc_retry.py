"""Golden cases of G15 alloc_retry."""

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import ProcessFacts

GIB = float(1 << 30)
POSITIVE = [
    on_gpu(process=ProcessFacts(allocator={"num_alloc_retries": 4.0})),
    on_gpu(readings={"allocated_bytes": (6 * GIB,), "reserved_bytes": (18 * GIB,)}),
]
NEGATIVE = [
    on_gpu(process=ProcessFacts(allocator={"num_alloc_retries": 0.0})),
    on_gpu(readings={"allocated_bytes": (0.1 * GIB,), "reserved_bytes": (0.5 * GIB,)}),
    on_gpu(readings={"allocated_bytes": (15 * GIB,), "reserved_bytes": (18 * GIB,)}),
]
