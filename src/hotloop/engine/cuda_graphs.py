"""Records forward and backward of one micro batch as a CUDA graph once, and replays it.

The graph reads its batch from fixed memory and adds to gradients that stay in place, so that
accumulation works. torch's `make_graphed_callables` would return one gradient buffer twice
(pytorch issues 96693, 169545). A batch of another shape, such as an epoch's last one, runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.session.session import Session

__all__ = ["GraphedMicroStep", "Recording", "record_cuda"]

WARM_UP = 3  # calls on a side stream, https://docs.pytorch.org/docs/stable/notes/cuda.html, 2026-11
# Takes a function that makes no decision on the host; returns a replay function and its result.
Recording = Callable[[Callable[[], Tensor]], tuple[Callable[[], object], Tensor]]


def record_cuda(once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Record a function as a CUDA graph; return the replay function and the result tensor."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        # A save's thread may ask for an event meanwhile, which would end a "global" capture.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = once()
    except BaseException:
        _leave_capture()
        raise
    return graph.replay, loss


def _leave_capture() -> None:
    """Let the GPU's generator be drawn from again.

    A capture that fails leaves it as in a capture, and each later dropout raises "Offset increment
    outside graph capture" (seen with torch 2.11). Its copy has the same seed and offset.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())


class GraphedMicroStep:
    """Adds the gradients of one micro batch of the recorded shape by replaying the graph."""

    def __init__(
        self,
        session: Session,
        tensors: Mapping[str, Tensor],
        record: Recording = record_cuda,
    ) -> None:
        if odd := [name for name, value in tensors.items() if not isinstance(value, Tensor)]:
            raise RuntimeError(f"{' and '.join(odd)} of a batch cannot be recorded in a graph")
        self._fixed = {name: tensor.clone() for name, tensor in tensors.items()}
        self._weight = torch.ones((), device=session.device)
        for parameter in session.model.parameters():
            if parameter.requires_grad:  # backward adds to it in place
                parameter.grad = torch.zeros_like(parameter)

        def once() -> Tensor:
            loss = session.forward(self._fixed)
            (loss * self._weight).backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        self._replay, self._loss = record(once)

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether a batch has the recorded shape."""
        return tensors.keys() == self._fixed.keys() and all(
            tensor.shape == self._fixed[name].shape for name, tensor in tensors.items()
        )

    def __call__(self, tensors: Mapping[str, Tensor], weight: float) -> Tensor:
        """Add the gradients of `weight` times the loss; return that product, a scalar."""
        for name, tensor in tensors.items():
            self._fixed[name].copy_(tensor, non_blocking=True)
        self._weight.fill_(weight)
        self._replay()
        return self._loss * weight  # new memory: the next replay writes over the old
