"""Examples of sample-cache."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says=r"samples are kept, [\d.]+ GB at most",
)
