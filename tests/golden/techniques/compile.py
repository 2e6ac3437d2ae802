"""Examples of compile."""

import pytest
import torch
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples


def as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests compiled: blocks that are alike share a graph."""
    del monkeypatch
    torch._dynamo.reset()


EXAMPLES = Examples(
    blocked_on={"gtx 1080"},
    blocked_with={"mode=reduce-overhead": NOT_CUDA | {"gtx 1080"}},
    says="2 blocks, 1 graphs, 0 graph breaks",
    choice={"backend": "aot_eager"},
    promised=[{"backend": "aot_eager"}],
    stand_in=as_in_a_new_process,
)
