"""Golden cases of G26 wrong_device."""

from dataclasses import replace

from tests.golden.cases import CARD, CPU, healthy, machine

POSITIVE = [
    healthy(hardware=CARD),
    healthy(hardware=replace(CPU, versions={"driver": "535.104.05", "torch": "2.13.0+cpu"})),
]
NEGATIVE = [healthy(hardware=replace(CPU, versions={"torch": "2.13.0+cpu"}))]

# Before a run.
DRIVEN = replace(CPU, versions={"driver": "535.104", "torch": "2.13.0"})
POSITIVE += [
    machine(card_here="nvidia-smi"),
    machine(DRIVEN, card_here="a driver (535.104)", torch_cuda="13.0"),
    machine(DRIVEN, card_here="a driver (535.104)", torch_cuda="12.6"),
]
NEGATIVE += [
    machine(DRIVEN),
    machine(CARD, card_here="nvidia-smi"),
]
