"""Examples of autocast-fp16."""

from tests.golden.machines import NOT_CUDA, UNKNOWN
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=NOT_CUDA | UNKNOWN | {"gtx 1080"},
    says=r"forward: autocast-fp16 > \w+; loss scale \d+",
)
