"""Golden cases of G32 near_ceiling."""

from dataclasses import replace

from tests.golden.cases import CPU, healthy

from hotloop.core.measurement import Measurement

measured = replace(
    CPU, measured={"fp32": Measurement(unit="FLOP/s", readings=(1e11, 1.1e11, 1.05e11))}
)
fast = replace(healthy().steps, flops=9.5e8)  # in 10 ms
POSITIVE = [healthy(hardware=measured, steps=fast)]
NEGATIVE = [
    healthy(steps=fast),
    healthy(hardware=measured, steps=replace(fast, flops=3e8)),
    healthy(hardware=measured),
]
