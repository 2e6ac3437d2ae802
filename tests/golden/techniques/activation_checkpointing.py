"""Examples of activation-checkpointing."""

from tests.golden.jobs import recomputing
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says="full: 2 of 2 blocks recompute",
    job_with={"mode=off": recomputing},
)
