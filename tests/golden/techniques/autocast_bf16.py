"""Examples of autocast-bf16."""

from tests.golden.machines import NO_BF16
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NO_BF16,
    says=r"forward: autocast-bf16 > \w+$",
)
