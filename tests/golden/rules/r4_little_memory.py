"""Golden cases of R4 little_memory."""

from tests.golden.cases import machine

POSITIVE = [machine(free_host_bytes=1 << 30)]
NEGATIVE = [machine(free_host_bytes=2 << 30)]
