"""Golden cases of M2 backend."""

from tests.golden.cases import GPU, healthy, on_gpu

from hotloop.core.case.environment import ProcessFacts

recorded = {"script": "hotloop train char-lm", "models": ()}  # of a record, which has no models

POSITIVE = [
    on_gpu(process=ProcessFacts(world=2, backend="gloo")),
    healthy(**recorded, hardware=GPU, process=ProcessFacts(world=2, backend="gloo")),
]
NEGATIVE = [
    on_gpu(process=ProcessFacts(world=2, backend="nccl")),
    on_gpu(process=ProcessFacts(world=2, backend="cpu:gloo,cuda:nccl")),
    healthy(process=ProcessFacts(world=2, backend="gloo")),
    healthy(hardware=GPU, process=ProcessFacts(world=2, backend="gloo")),  # its model is on the CPU
    healthy(**recorded, process=ProcessFacts(world=2, backend="gloo")),
    healthy(**recorded, hardware=GPU, process=ProcessFacts(world=2, backend="nccl")),
]
