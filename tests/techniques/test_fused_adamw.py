import torch
from tests.golden.jobs import session_of

from hotloop import techniques


def test_another_optimizer_is_left_alone() -> None:
    session = session_of()
    session.optimizer = torch.optim.SGD(session.model.parameters(), lr=0.1)
    assert techniques.get("fused-adamw").apply(session) == 0
    assert techniques.get("fused-adamw").read_back(session) is None
