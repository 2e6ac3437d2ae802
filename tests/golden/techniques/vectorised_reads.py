"""Examples of vectorised-reads."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says="Images is indexed once for each batch",
)
