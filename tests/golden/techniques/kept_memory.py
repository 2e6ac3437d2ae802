"""Examples of kept-memory."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says="freed memory is kept",
)
