"""Three recorded training steps."""

from collections.abc import Callable, Iterable

import torch

from hotloop.observe.ledger.flow import Flow
from hotloop.observe.ledger.recorder import Recorder


def recorded(
    losses: Callable[[], Iterable[torch.Tensor]], weights: list[torch.Tensor]
) -> tuple[Recorder, Flow]:
    """Record steps with a backward pass for each loss; return the recorder and the dataflow."""
    optimizer = torch.optim.SGD(weights, lr=1e-3)
    recorder = Recorder(is_ours=lambda: False)
    recorder.start(weights)
    for _ in range(3):
        for value in losses():
            recorder.differentiate(value, adds_up=True)
            value.backward()
        optimizer.step()
        optimizer.zero_grad()
        recorder.end_step()
    recorder.stop()
    assert recorder.fault is None
    return recorder, Flow(recorder.operations, recorder.ends, recorder.live([]), recorder.weights)
