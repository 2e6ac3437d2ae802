"""Examples of loader-workers."""

from tests.golden.jobs import images
from tests.golden.machines import NOT_CUDA, TWO_CORES
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    blocked_with={"count=4": TWO_CORES, "count=8": TWO_CORES, "pin=on": NOT_CUDA},
    says=r"\d loader processes, 2 (windows|batches) ahead each",
    job=images,
    promised=[{"count": 1}, {"count": 2, "ahead": 4}],  # torch warns above the cores
)
