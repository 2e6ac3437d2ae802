"""Golden cases of G26 wrong_device."""

from dataclasses import replace

from tests.golden.cases import CARD, CPU, healthy

POSITIVE = [
    healthy(hardware=CARD),
    healthy(hardware=replace(CPU, versions={"driver": "535.104.05", "torch": "2.13.0+cpu"})),
]
NEGATIVE = [healthy(hardware=replace(CPU, versions={"torch": "2.13.0+cpu"}))]
