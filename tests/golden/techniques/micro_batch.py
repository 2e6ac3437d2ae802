"""Examples of micro-batch."""

from tests.golden.accumulating import train
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says="an optimizer step has 4 micro batches of 4 rows",
    script=train,
)
