"""Examples of int8-mixed-precision."""

from tests.golden.machines import NOT_CUDA, OLD, UNKNOWN
from tests.golden.techniques import Examples
from tests.golden.techniques.fp8 import stand_in

from hotloop.core.plan import Plan

EXAMPLES = Examples(
    blocked_on=NOT_CUDA | OLD | UNKNOWN,
    beside=Plan(micro_batch=1).plus("compile"),
    says=r"\d linear layers multiply in int8",
    stand_in=stand_in,
)
