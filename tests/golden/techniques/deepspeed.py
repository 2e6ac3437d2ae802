"""Examples of deepspeed."""

from tests.golden import fake_deepspeed
from tests.golden.machines import EVERYWHERE
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=EVERYWHERE,
    says="1 ranks, ZeRO-1: rank 0 updates 100% of what is trained",
    stand_in=fake_deepspeed.install,
)
