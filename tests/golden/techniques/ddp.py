"""Examples of ddp."""

from tests.golden.machines import EVERYWHERE
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=EVERYWHERE,
    says="1 ranks over gloo, buckets of 25 MiB",
)
