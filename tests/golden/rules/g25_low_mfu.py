"""Golden cases of G25 low_mfu."""

from dataclasses import replace

from tests.golden.cases import CARD, healthy, on_card, wall

steps = healthy().steps
slow = replace(steps, flops=2e10)  # in 10 ms: 2 of 35.6 TFLOP/s
POSITIVE = [
    on_card(steps=slow),
    on_card(steps=replace(steps, tokens=10_000.0)),  # 6 per parameter and token
]
NEGATIVE = [
    on_card(steps=replace(steps, flops=2e11)),
    on_card(steps=slow, wall=wall(data_wait=10.0)),
    on_card(steps=replace(slow, starved=0.9)),
    on_card(steps=slow, hardware=replace(CARD, name="an unknown card")),
    healthy(steps=slow),
]
