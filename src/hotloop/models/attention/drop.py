"""Dropout whose random numbers cost less on a CPU.

torch's own take 1.45 ms for 330,000 numbers, a fifth of a step of a BERT; here 16 bits of a 64-bit
draw decide, which takes 0.27 ms (2 cores of an AMD EPYC, torch 2.13, 2026-11). They come from the
same generator, so that a saved state of it goes on with the same draws; for the same seed they are
others than torch's.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CheapDropout", "cheapen", "drop"]

_LEVELS: Final = 1 << 16  # of probability
_IN_ONE: Final = 4  # numbers of 16 bits in one draw
_LOWEST: Final = -(1 << 15)


def drop(x: Tensor, share: float) -> Tensor:
    """Return x with a share of its elements set to 0, the others divided by the rest.

    The share is rounded to 1 / 65,536. On a GPU, and in compiled code, it is torch's dropout.
    """
    zeros = round(share * _LEVELS)
    if x.device.type != "cpu" or torch.compiler.is_compiling() or zeros in (0, _LEVELS):
        return functional.dropout(x, share)
    count = x.numel()
    drawn = torch.empty(-(-count // _IN_ONE), dtype=torch.int64)
    drawn.random_(-(1 << 63), None)  # None: up to the largest
    is_kept = drawn.view(torch.int16)[:count].view(x.shape) >= zeros + _LOWEST
    return x * is_kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - zeros))


class CheapDropout(nn.Dropout):
    """nn.Dropout with these draws."""

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]."""
        return drop(x, self.p) if self.training and self.p else x


def cheapen(model: nn.Module) -> None:
    """Let the dropout modules of a model draw so; subclasses, and those in place, stay."""
    for module in model.modules():
        if type(module) is nn.Dropout and not module.inplace:
            module.__class__ = CheapDropout
