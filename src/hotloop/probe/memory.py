"""Forecasts the memory of one training step without doing it: fake tensors have sizes, no values.

Method: a dispatch mode sees every operator, counts each new storage once and takes it off when
the storage dies, so the peak is that of the live tensors. The same tracker on real tensors
(`measure`) is the check of the forecast; both are within 2 % also with frozen parameters, where
`torch.distributed._tools.MemTracker` fails. Fake tensors are always on the CPU: fake "cuda" ones
abort the process on a CPU build of torch 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Forecast", "Tracker", "forecast", "largest_micro_batch", "measure"]

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
_PRECISIONS = ("fp32", "tf32", *_AUTOCAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Bytes of live tensors in one training step, and its FLOPs."""

    micro_batch: int  # samples
    parameters_bytes: int  # with buffers
    gradients_bytes: int  # after backward; frozen parameters have none
    optimizer_bytes: int  # its state, after the first step
    activations_bytes: int  # what the peak has beyond parameters, gradients and optimizer state
    peak_bytes: int
    flops: int | None  # forward and backward of one micro batch; causal attention counts as full
    seconds: float  # what the forecast itself took
    left_out: str  # what the peak does not hold
