"""Record functions that make no decision on the host as CUDA graphs, which share one pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["CudaRecording", "Recording"]


class Recording(Protocol):
    """Records functions that make no decision on the host, for replays that never overlap.

    A result stays valid until the same recording is replayed again. Other memory that a recording
    used may be written by each of the others.
    """

    def __call__(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Call a function, then record it; return the replay function and the result tensor."""
        ...

    def record(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Record a function without calling it; most of its kernels have run before."""
        ...


class CudaRecording:
    """Recordings as CUDA graphs; `pool` is their memory."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Call a function on a side stream, then record it.

        Nodes of autograd belong to the stream on which they are made, and must not be the default
        stream's in a recording (https://docs.pytorch.org/docs/stable/notes/cuda.html, 2026-11).
        Memory of passes before the recording goes back to the GPU: the pool takes as much again.
        """
        torch.cuda.empty_cache()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            once()
        torch.cuda.current_stream().wait_stream(self._stream)
        return self.record(once)

    def record(self, once: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Record a function; an error leaves torch as it was."""
        graph = torch.cuda.CUDAGraph()
        try:
            # A save's thread may ask for an event meanwhile, which would end a "global" capture.
            with torch.cuda.graph(graph, self.pool, self._stream, "thread_local"):
                result = once()
        except BaseException:
            _leave_capture()
            raise
        return graph.replay, result


def _leave_capture() -> None:
    """Let the GPU's generator be drawn from again.

    A capture that fails leaves it as in a capture, and each later dropout raises "Offset increment
    outside graph capture" (seen with torch 2.11). Its copy has the same seed and offset.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())
