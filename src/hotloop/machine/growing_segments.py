"""Lets torch's CUDA allocator grow its segments in place, so that it reserves little beside them.

Batches differ in shape. The allocator's own way is to ask the driver for a block of each new size
and to keep it; on the null card it then reserved up to 2.4 times the bytes of the tensors, with
segments that grow 1.1 times (docs/nullcard.md). torchtitan starts all its runs this way.
Source: expandable_segments in https://docs.pytorch.org/docs/stable/notes/cuda.html (2026-11);
https://github.com/pytorch/torchtitan/blob/main/run_train.sh (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hotloop.core.env import named
from hotloop.machine.memory_spill import spills

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware

__all__ = ["grow_segments", "why_not_growing"]

_OWN: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_PROBE_BYTES: Final = 1 << 25  # larger than any block that is cut from a shared one


def why_not_growing(hardware: Hardware, torch: Any) -> str | None:
    """Return why the allocator's settings stay as they are, or None. `torch` is a seam."""
    if hardware.device != "cuda":
        return "the device is not a CUDA GPU"
    if own := next(iter(named(_OWN)), None):
        return f"{own} is set"
    if spills(hardware):
        return "the driver of Windows and WSL cannot"
    if torch.version.hip is not None:
        return "torch is built for ROCm"
    if torch.cuda.get_allocator_backend() != "native":
        return "the allocator is not torch's own"
    return None


def grow_segments(hardware: Hardware, torch: Any = None) -> Callable[[], None] | None:
    """Let segments grow from now on; return what takes that back, or None where nothing changed.

    Memory that torch keeps without using it, of an earlier run in this process, is given back
    first, and so are cuBLAS's workspaces, which would hold pages between free ones. A driver
    without virtual memory, such as that of a vGPU, keeps the settings.
    """
    if torch is None:
        import torch
    if why_not_growing(hardware, torch) is not None:
        return None
    # torch's own name for it, as torch/_inductor/cudagraph_trees.py uses it (2.9 to 2.14).
    if (clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None)) is not None:
        clear()
    torch.cuda.empty_cache()
    _set(torch, grows=True)
    try:
        torch.empty(_PROBE_BYTES, dtype=torch.uint8, device=hardware.device)
    except RuntimeError:  # also out of memory, which the run itself will meet again
        _set(torch, grows=False)
        return None
    torch.cuda.empty_cache()
    return lambda: _set(torch, grows=False)


def _set(torch: Any, *, grows: bool) -> None:
    # 2.10 and later have the first; the second is deprecated there.
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    change = change or torch.cuda.memory._set_allocator_settings
    change(f"expandable_segments:{grows}")
