"""Examples of cudnn-benchmark."""

from tests.golden.jobs import images
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NOT_CUDA,
    says=r"cudnn.benchmark is on for \d convolutions",
    job=images,
)
