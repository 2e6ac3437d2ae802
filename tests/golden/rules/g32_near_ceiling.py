"""Golden cases of G32 near_ceiling."""

from dataclasses import replace

from tests.golden.cases import CPU, healthy

from hotloop.core.case.environment import Ceiling
from hotloop.core.measurement import Measurement

measured = replace(
    CPU, measured={"fp32": Measurement(unit="FLOP/s", readings=(1e11, 1.1e11, 1.05e11))}
)
asked = {"ceilings": (Ceiling(name="baseline", step_time=(0.01,)),)}
fast = replace(healthy().steps, flops=9.5e8)  # in 10 ms
POSITIVE = [healthy(hardware=measured, steps=fast, **asked)]
NEGATIVE = [
    healthy(steps=fast, **asked),
    healthy(hardware=measured, steps=replace(fast, flops=3e8), **asked),
    healthy(hardware=measured, **asked),
]
