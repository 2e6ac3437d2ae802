"""Give a model without weights the sizes of 4-bit weights, so that a forecast counts them packed.

The sizes are those of bitsandbytes' NF4 with double quantisation (arXiv:2305.14314, section 3):
half a byte a weight, a byte for each block of 64, four for each 256 blocks: 0.516 bytes a weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from hotloop.models.adapters.nf4_linear import Nf4Linear, quantise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["size_as_packed"]

_BLOCK: Final = 64  # weights that share a scale
_SCALES: Final = 256  # scales that share a scale of their own


def size_as_packed(model: nn.Module, *, keep: Sequence[str] = ()) -> None:
    """Give a model the sizes that `nf4_linear.quantise` makes, without reading a weight.

    It computes with bitsandbytes' operators, which know the sizes of their results. Raises
    DeviceError without that package.
    """
    quantise(nn.Sequential())  # an empty model: raises if there is no bitsandbytes
    for name, module in list(model.named_modules()):
        if type(module) is not nn.Linear or name in keep:
            continue
        module.weight, scales = _packed(module.weight)
        if module.bias is not None:
            module.bias.requires_grad_(False)
        module.register_buffer("scales_of_weight", scales)
        module.__class__ = Nf4Linear
        module.compute_dtype = torch.bfloat16  # type: ignore[assignment]


def _packed(weight: Tensor) -> tuple[nn.Parameter, Tensor]:
    """Return a parameter with the shape of a weight and the storage of a packed one; its scales.

    The state is built here, because bitsandbytes' own functions would cache a tensor without values
    for all later calls of the process (its table of 8-bit codes).
    """
    from bitsandbytes.functional import QuantState

    blocks = -(-weight.numel() // _BLOCK)

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=weight.device)

    of_scales: Any = QuantState(  # type: ignore[no-untyped-call]
        absmax=empty(-(-blocks // _SCALES)), code=empty(256), blocksize=_SCALES, dtype=torch.float32
    )
    scales = empty(blocks, dtype=torch.uint8)
    half = empty(-(-weight.numel() // 2), dtype=torch.uint8)
    parameter = nn.Parameter(half[:1].expand(weight.shape), requires_grad=False)
    parameter.quant_state = QuantState(  # type: ignore[attr-defined, no-untyped-call]
        absmax=scales,
        shape=weight.shape,
        code=empty(16),
        blocksize=_BLOCK,
        quant_type="nf4",
        dtype=weight.dtype,
        offset=empty(),
        state2=of_scales,
    )
    return parameter, scales
