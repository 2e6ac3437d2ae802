"""Examples of activation-offload."""

from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NOT_CUDA,
    says=r"2 of 2 blocks save in host memory",
)
