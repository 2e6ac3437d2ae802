"""Examples of compile."""

from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on={"gtx 1080"},
    blocked_with={"mode=reduce-overhead": NOT_CUDA | {"gtx 1080"}},
    says="2 blocks, 1 graphs, 0 graph breaks",
    choice={"backend": "aot_eager"},
    promised=[{"backend": "aot_eager"}],
)
