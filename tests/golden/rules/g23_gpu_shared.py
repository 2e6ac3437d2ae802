"""Golden cases of G23 gpu_shared."""

from dataclasses import replace

from tests.golden.cases import CARD, machine, on_card

alone = {"gpu_utilisation": (0.9,), "gpu_other_processes": (0.0, 0.0)}
POSITIVE = [
    on_card(readings={**alone, "gpu_other_processes": (0.0, 2.0)}),
    on_card(hardware=replace(CARD, name="NVIDIA A100-SXM4-40GB MIG 3g.20gb"), readings=alone),
]
NEGATIVE = [on_card(readings=alone)]

# Before a run.
POSITIVE += [
    machine(CARD, free_device_bytes=19 << 30),
]
NEGATIVE += [
    machine(CARD, free_device_bytes=20 << 30),
    machine(CARD),
]
