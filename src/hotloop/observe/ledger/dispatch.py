"""Has a function run each operator below autograd, and waits for the GPU that runs it."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["dispatch_mode", "gpu_waiter"]


def dispatch_mode(call: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a mode that has `call(operator, args, kwargs)` run each operator below autograd.

    Autograd takes the mode along to the thread on which it computes for a GPU.
    """
    base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Recording(base):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            return call(func, args, kwargs or {})

    return Recording()


def gpu_waiter() -> Callable[[], object] | None:
    """Return a function that waits until the GPU has nothing to do; None if none is in use."""
    cuda: Any = sys.modules["torch"].cuda
    if not (cuda.is_available() and cuda.is_initialized()):
        return None
    synchronize = cuda.synchronize

    def wait() -> None:
        if not cuda.is_current_stream_capturing():  # to wait would end the capture
            synchronize()

    return wait


hide(globals())
