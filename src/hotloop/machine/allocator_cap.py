"""A cap on torch's CUDA allocator: the remedy against a driver that spills into host memory."""

from __future__ import annotations

__all__ = ["cap_memory"]


def cap_memory(fraction: float, device: str) -> str | None:
    """Let this process use at most `fraction` of the card; return why that has no effect here.

    Beyond the cap torch raises out of memory, which the loop recovers from; a driver that spills
    (Windows, WSL) would go on at a tenth of the speed.
    Source: torch.cuda.set_per_process_memory_fraction (docs.pytorch.org, 2026-11).
    """
    if device != "cuda":
        return f"training.memory_fraction caps CUDA's allocator, and this run is on {device}"
    import torch

    torch.cuda.set_per_process_memory_fraction(fraction)
    return None
