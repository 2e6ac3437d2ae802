"""Examples of fused-adamw."""

from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says=r"fused=True in (\d) of \1 parameter groups",
)
