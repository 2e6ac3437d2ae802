"""Examples of token-budget."""

from tests.golden.techniques import Examples
from tests.golden.techniques.length_bucketing import bucketed

EXAMPLES = Examples(
    blocked_on=set(),
    says="batches are of about as many tokens each",
    script=bucketed,
)
