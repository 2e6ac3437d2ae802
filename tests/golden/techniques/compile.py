"""Examples of compile."""

import pytest
import torch
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples
from torch._dynamo.utils import counters


def as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the graphs that other tests compiled: `read_back` counts those of the process."""
    del monkeypatch
    torch._dynamo.reset()
    counters.clear()  # which reset keeps


EXAMPLES = Examples(
    blocked_on={"gtx 1080"},
    blocked_with={"mode=reduce-overhead": NOT_CUDA | {"gtx 1080"}},
    says="2 blocks, 1 graphs, 0 graph breaks",
    choice={"backend": "aot_eager"},
    promised=[{"backend": "aot_eager"}],
    stand_in=as_in_a_new_process,
)
