"""What is seen of several processes. One process stands for a group of one; the rest is seams."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.golden.cases import healthy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.steps_and_loaders import Frame, Stack, Steps
from hotloop.observe.probes.process_group import ProcessGroupProbe

EPOCHS = """
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
rows = TensorDataset(torch.randn(32, 4))
sampler = DistributedSampler(rows, num_replicas=2, rank=0)
loader = DataLoader(rows, batch_size=4, sampler=sampler)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    {told}
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("told", "calls"), [("sampler.set_epoch(epoch)", 3), ("pass", 0)])
def test_calls_of_set_epoch_are_counted(observed, told, calls):
    found = observed(EPOCHS.format(told=told))
    assert [loader.set_epoch for loader in found.loaders] == [calls]
    assert not found.process.ranks


def test_a_sampler_with_a_set_epoch_of_its_own_is_not_judged():
    class Own(DistributedSampler[Any]):
        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    rows = TensorDataset(torch.randn(8, 2))
    loader = DataLoader(rows, sampler=Own(rows, num_replicas=2, rank=0))
    watcher = ProcessGroupProbe(SimpleNamespace(loaders=[]))
    watcher.on_iterator_created(loader, None)
    assert watcher._samplers == {}


class Parallel:
    """Stands for DistributedDataParallel on a GPU: torch times a pass, in nanoseconds."""

    device_type = "cuda"
    require_backward_grad_sync = True

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def _get_ddp_logging_data(self) -> dict[str, int]:
        return self.times


def test_what_a_process_waits_for_is_no_work_of_its_own():
    model = Parallel()
    watcher = ProcessGroupProbe(SimpleNamespace(roots=[SimpleNamespace(reference=lambda: model)]))
    watcher._group = {"rank": 1, "world": 2, "backend": "nccl"}
    for number in (1, 2, 2):  # a pass is read once
        model.times = {
            "iteration": number,
            "backward_comm_time": number * 3_000_000,
            "backward_compute_comm_overlap_time": 1_000_000,
        }
        watcher.after_step(number)
    model.require_backward_grad_sync = False
    watcher.on_backward(None, True)
    model.require_backward_grad_sync = True
    watcher.on_backward(None, True)
    frames = (
        Frame(file="/torch/distributed/distributed_c10d.py", line=9, function="f", own=False),
    )
    steps = Steps(
        count=4, wall=(0.02,) * 4, rows={"backward": (0.01,) * 4, "after step": (0.01,) * 4}
    )
    case = healthy(
        steps=steps,
        stacks=(Stack(row="after step", frames=frames, samples=2, seconds=0.012),),
        process=ProcessFacts(allocator={"peak": 5e9}),
    )
    process = watcher.add_to(case).process
    assert (process.rank, process.world, process.backend) == (1, 2, "nccl")
    assert process.exchanging == 0.5
    seen = {name: value for name, (value,) in process.ranks.items()}
    # (2 + 5) / 2 ms of a pass that exchanges, one in 2 does; 12 ms in 4 steps of its own
    assert seen == pytest.approx(
        {
            "memory": 5e9,
            "step": 0.02,
            "backward": 0.01 - 0.00175,
            "after step": 0.01 - 0.003,
            "communication": 0.00475,
        }
    )
