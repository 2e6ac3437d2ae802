"""Examples of device-prefetch."""

from collections.abc import Iterable, Sequence

import torch
from tests.golden.machines import NOT_CUDA
from tests.golden.techniques import Examples
from torch.utils.data import DataLoader

from hotloop.session.session import ScriptSession, Session
from hotloop.techniques import device_prefetch


class CopyAtOnce:
    """Stands in for a GPU's side stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def send(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], None]:
        return [tensor.clone() for tensor in tensors], None

    def arrive(self, tensors: Iterable[torch.Tensor], event: None, *, wait: bool = False) -> None:
        """It is there."""


def moving() -> None:
    """Train on batches that the loop moves to its device."""
    net = torch.nn.Linear(3, 1)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(8, 3), batch_size=2):
        net(x.to("cpu")).sum().backward()
        update.step()


def apply(session: Session | ScriptSession) -> int:
    """Apply it; in a script the copy is made at once, from the CPU to the CPU."""
    if isinstance(session, ScriptSession):
        return device_prefetch.send_ahead(session, CopyAtOnce, "cpu")
    return device_prefetch.apply(session)


EXAMPLES = Examples(
    blocked_on=NOT_CUDA,
    says="the next (window|batch) is copied .*on a side stream",
    script=moving,
    apply=apply,
)
