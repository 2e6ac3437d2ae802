"""Examples of lagged-loss-read."""

from tests.golden.machines import CPUS
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=CPUS,
    says="losses are read at the log interval",
)
