"""Has a function run each operator below autograd, and times it on a GPU."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["KernelClock", "dispatch_mode"]

_TRIAL = 100_000  # cycles of a first sleep, which is timed
_LAUNCHES = 20  # times that of a small operator: what the host may take to launch a large one


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
    without a gap between its two events. How long it has to be busy is measured first.
    """

    def __init__(self, cuda: Any, launch: Callable[[], object]) -> None:
        """`launch` starts a small operator on the GPU and does not wait for it."""
        self._cuda = cuda
        self._first, self._last = (cuda.Event(enable_timing=True) for _ in range(2))
        self._cycles = _TRIAL
        for _ in range(2):  # the first sleep loads its kernel
            cuda.synchronize()
            self._first.record()
            cuda._sleep(_TRIAL)
            slept = max(1, self._passed())
        self._cycles = _TRIAL * _LAUNCHES * _nanoseconds(launch) // slept

    @classmethod
    def of_gpu(cls) -> Self | None:
        """Return a clock of the GPU that the script uses; None if it uses none."""
        torch: Any = sys.modules["torch"]
        if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
            return None
        one = torch.ones(1, device="cuda")
        return cls(torch.cuda, lambda: torch.ops.aten.add.Tensor(one, 1))

    @property
    def is_capturing(self) -> bool:
        """Whether a CUDA graph is captured, which allows no wait and no value to be read."""
        return bool(self._cuda.is_current_stream_capturing())

    def begin(self) -> None:
        """Start before an operator."""
        self._cuda.synchronize()
        self._cuda._sleep(self._cycles)
        self._first.record()

    def end(self, tensors: Iterable[Any], on_host: int) -> int:
        """Wait for the operator; return its nanoseconds on the GPU, or `on_host` on CPU tensors."""
        on_gpu = self._passed()
        return on_gpu if any(one.is_cuda for one in tensors) else on_host

    def _passed(self) -> int:
        self._last.record()
        self._last.synchronize()
        return int(self._first.elapsed_time(self._last) * 1e6)


def _nanoseconds(launch: Callable[[], object]) -> int:
    times = []
    for _ in range(20):
        start = time.perf_counter_ns()
        launch()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[10]


hide(globals())
