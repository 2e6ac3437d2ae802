"""Examples of async-checkpoint."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says="a thread writes copies, one in flight",
)
