"""Examples of fsdp2."""

from tests.golden.machines import EVERYWHERE
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=EVERYWHERE,
    says=r"1 ranks, (\d+) of \1 tensors in rows: rank 0 holds 100% of the model",
)
