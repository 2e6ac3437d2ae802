"""Golden cases of M2 backend."""

from tests.golden.cases import healthy, on_card

from hotloop.core.around import Process

POSITIVE = [on_card(process=Process(world=2, backend="gloo"))]
NEGATIVE = [
    on_card(process=Process(world=2, backend="nccl")),
    on_card(process=Process(world=2, backend="cpu:gloo,cuda:nccl")),
    healthy(process=Process(world=2, backend="gloo")),
]
