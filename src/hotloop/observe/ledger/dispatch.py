"""Has a function run each operator below autograd, and times it on a GPU."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Self

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["KernelClock", "dispatch_mode"]

_CYCLES = 500_000  # 0.2 to 0.4 ms, in which the host launches an operator


def dispatch_mode(call: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a mode that has `call(operator, args, kwargs)` run each operator below autograd.

    Autograd takes the mode along to the thread on which it computes for a GPU.
    """
    base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Recording(base):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            return call(func, args, kwargs or {})

    return Recording()


class KernelClock:
    """Times what a GPU does for one operator, without the time to launch it.

    The GPU is kept busy until the host has launched all kernels of the operator: it then runs them
    without a gap between its two events.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._first, self._last = (cuda.Event(enable_timing=True) for _ in range(2))

    @classmethod
    def of_gpu(cls) -> Self | None:
        """Return a clock of the GPU that the script uses; None if it uses none."""
        cuda: Any = sys.modules["torch"].cuda
        return cls(cuda) if cuda.is_available() and cuda.is_initialized() else None

    def begin(self) -> bool:
        """Start before an operator; False while a CUDA graph is captured, which allows no wait."""
        if self._cuda.is_current_stream_capturing():
            return False
        self._cuda.synchronize()
        self._cuda._sleep(_CYCLES)
        self._first.record()
        return True

    def end(self, tensors: Iterable[Any], on_host: int) -> int:
        """Wait for the operator; return its nanoseconds on the GPU, or `on_host` on CPU tensors."""
        self._last.record()
        self._last.synchronize()
        on_gpu = int(self._first.elapsed_time(self._last) * 1e6)
        return on_gpu if any(one.is_cuda for one in tensors) else on_host


hide(globals())
