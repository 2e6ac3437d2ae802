"""Examples of tf32."""

from tests.golden.machines import NOT_CUDA, OLD, UNKNOWN
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NOT_CUDA | OLD | UNKNOWN,
    says="float32 matmul precision high",
)
