"""Examples of gc-freeze."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says=r"[\d,]+ objects frozen",
)
