"""Examples of channels-last."""

from tests.golden.jobs import images
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    says=r"(\d) of \1 weights in channels_last",
    job=images,
)
