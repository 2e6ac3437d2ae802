"""Examples of threads."""

from tests.golden.machines import EVERYWHERE, TWO_CORES
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on={"cpu unknown"},
    blocked_with={
        "count=1": set(),
        "count=2": set(),
        "count=4": TWO_CORES,
        "count=8": TWO_CORES,
        "count=16": EVERYWHERE - {"cpu unknown"},
    },
    says="3 compute threads",
    choice={"count": 3},
    promised=[{"count": 0}, {"count": 1}, {"count": 2}],  # more would spin on two cores
)
