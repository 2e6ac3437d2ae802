"""AdamW's two moving averages in 8 bits each: blocks of 256 numbers share a scale.

Dims: N numbers, B blocks of 256 of them.
A code is the square root of an average of gradients, and the fourth root of one of their squares,
so that small numbers of a block keep digits. What lies between two codes becomes one of them by
chance, so that on average nothing is lost: an average of squares moves by 0.1 to 1 % in a step,
which is less than the distance of two codes, and by rounding to the nearest it would stand still.
Sources: blocks with scales: Dettmers et al. 2021, arXiv:2110.02861; roots in place of their table
of codes, and chance: ours, compared in benchmarks/adamw_8bit.py.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

__all__ = ["BLOCK", "decoded", "decoded_squares", "encoded", "encoded_squares", "in_bfloat16"]

BLOCK: Final = 256
_TOP, _TOP_OF_SQUARES = 127.0, 255.0
_TINY: Final = 1e-38  # a scale of 0 divides by this instead


def encoded(average_BN: Tensor, chance_BN: Tensor) -> tuple[Tensor, Tensor]:
    """[B, 256] fp32 -> codes int8 and scales [B, 1]; `chance_BN` is uniform from 0 to 1."""
    scale_B1 = average_BN.abs().amax(1, keepdim=True)
    full_BN = average_BN.abs() / scale_B1.clamp(min=_TINY) * _TOP**2
    low_BN = full_BN.sqrt().floor()
    share_BN = (full_BN - low_BN * low_BN) / (2 * low_BN + 1)
    # A GPU's division is not exact: the largest number of a block may come out above 1.
    code_BN = (low_BN + (chance_BN < share_BN)).clamp(max=_TOP)
    return torch.where(average_BN < 0, -code_BN, code_BN).to(torch.int8), scale_B1


def decoded(code_BN: Tensor, scale_B1: Tensor) -> Tensor:
    """Codes int8 [B, 256] and scales [B, 1] -> fp32."""
    root_BN = code_BN.float()
    return root_BN * root_BN.abs() * (scale_B1 / _TOP**2)


def encoded_squares(average_BN: Tensor, chance_BN: Tensor) -> tuple[Tensor, Tensor]:
    """[B, 256] fp32, 0 or above -> codes uint8 and scales [B, 1]; 0 only for 0.

    An update is divided by its root: an average that became 0 by chance would make it enormous. So
    what is below code 1 becomes 1: the largest number of the block over 4e9.
    """
    scale_B1 = average_BN.amax(1, keepdim=True)
    full_BN = average_BN / scale_B1.clamp(min=_TINY) * _TOP_OF_SQUARES**4
    low_BN = full_BN.sqrt().sqrt().floor().clamp(max=_TOP_OF_SQUARES - 1)
    below_BN, above_BN = low_BN.square().square(), (low_BN + 1).square().square()
    share_BN = (full_BN - below_BN) / (above_BN - below_BN)
    code_BN = low_BN + (chance_BN < share_BN)
    return torch.maximum(code_BN, (average_BN > 0).float()).to(torch.uint8), scale_B1


def decoded_squares(code_BN: Tensor, scale_B1: Tensor) -> Tensor:
    """Codes uint8 [B, 256] and scales [B, 1] -> fp32."""
    return (code_BN.float() / _TOP_OF_SQUARES).square().square() * scale_B1


def in_bfloat16(x: Tensor, chance: Tensor) -> Tensor:
    """Return x, fp32, as one of the two nearest numbers of bfloat16: the nearer, the more often.

    `chance` is int32, uniform from 0 to 65,535: it is added to the bits that are cut off.
    """
    bits = x.view(torch.int32) + chance
    rounded = bits.bitwise_and(-65_536).view(torch.float32)
    return torch.where(x.isfinite(), rounded, x).to(torch.bfloat16)  # no NaN becomes a number
