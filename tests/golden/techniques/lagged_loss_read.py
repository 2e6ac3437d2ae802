"""Examples of lagged-loss-read."""

from tests.golden.machines import CPUS
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=CPUS,
    says="losses are logged at the interval, but read before each update: AdamW is not fused",
)
