"""Golden cases of D12 cache_thrash."""

from tests.golden.cases import healthy, wall

from hotloop.core.case.environment import ProcessFacts

READ = {"read_bytes_per_s": (250e6,) * 30}
FULL = ProcessFacts(page_cache=0.55)
POSITIVE = [healthy(wall=wall(data_wait=8.0), process=FULL, readings=READ)]
NEGATIVE = [
    healthy(wall=wall(data_wait=8.0), process=FULL, readings=READ, epochs=1),
    healthy(wall=wall(data_wait=8.0), process=ProcessFacts(page_cache=0.1), readings=READ),
    healthy(wall=wall(data_wait=8.0), process=FULL),
    healthy(process=FULL, readings=READ),
]
