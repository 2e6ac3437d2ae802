"""Golden cases of D11 cold_cache."""

from dataclasses import replace

from tests.golden.cases import healthy

STEPS = replace(healthy().steps, wall=(0.03,) * 400 + (0.01,) * 600)
COLD = {"read_bytes_per_s": (80e6,) * 4 + (1e5,) * 8}
POSITIVE = [healthy(steps=STEPS, readings=COLD)]
NEGATIVE = [
    healthy(readings=COLD),  # and no step was slower
    healthy(steps=STEPS, readings={"read_bytes_per_s": (80e6,) * 12}),
    healthy(steps=STEPS, readings={"read_bytes_per_s": (5e3,) * 4 + (1e2,) * 8}),
]
