"""Examples of adamw-8bit."""

from functools import partial

from tests.golden import jobs
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples

EXAMPLES = Examples(
    blocked_on=set(),
    blocked_with={"state=host": NOT_CUDA},
    says=r"\d of \d+ parameters have 8-bit averages, [\d.]+ [KM]i?B in the memory of the cpu",
    job=partial(jobs.text, width=160),  # a matrix of 65,536 numbers, of which it has 8 bits
)
