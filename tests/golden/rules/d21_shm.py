"""Golden cases of D21 shm."""

from dataclasses import replace

from tests.golden.cases import healthy, machine

from hotloop.core.case.environment import ProcessFacts

LOADER = replace(healthy().loaders[0], workers=2)
POSITIVE = [
    healthy(process=ProcessFacts(shm_used=0.85), loaders=(LOADER,)),
    healthy(process=ProcessFacts(shm_used=0.99), loaders=(LOADER,)),
]
NEGATIVE = [
    healthy(process=ProcessFacts(shm_used=0.5), loaders=(LOADER,)),
    healthy(process=ProcessFacts(shm_used=0.99)),
]

# Before a run.
POSITIVE += [
    machine(shm_bytes=64 << 20),
    machine(shm_bytes=512 << 20),
]
NEGATIVE += [
    machine(shm_bytes=None),
    machine(shm_bytes=1 << 30),
]
