"""Examples of cuda-graphs."""

from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NOT_CUDA,
    says="the steps are replayed",
)
