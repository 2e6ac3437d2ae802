"""Linear layers with frozen 4-bit weights (QLoRA's NF4), through bitsandbytes.

Dims: N positions, I inputs, O outputs.
Source: Dettmers et al. 2023, arXiv:2305.14314: NF4 in blocks of 64, whose scales are themselves
quantised ("double quantisation"); products are computed in `compute`, usually bf16.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from hotloop.core.errors import ConfigError, DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

__all__ = [
    "Nf4Linear",
    "elements",
    "frozen_product",
    "in_dtype",
    "is_quantised",
    "quantise",
    "rows",
    "unpacked",
]

_AT_ONCE = 1 << 24  # weights of a block in fp32: 64 MiB
_ALIGNED = 64  # rows that end at an NF4 block's end for any width
_BLOCK = 64  # weights that share a scale


def _bitsandbytes() -> Any:
    """Import bitsandbytes without warnings about features that are not used here."""
    # On CPUs with bf16 instructions it warns that `kernels` is missing: only for one-row products.
    log = logging.getLogger("bitsandbytes.backends.cpu.ops")
    log.addFilter(_is_of_use)
    try:
        with warnings.catch_warnings():
            # 14 times on torch 2.13 and bitsandbytes 0.50.2, which says nothing itself
            warnings.filterwarnings("ignore", r".*torch\.jit\.script", DeprecationWarning)
            import bitsandbytes
    except ImportError as error:
        raise DeviceError(
            f"4-bit weights need bitsandbytes ({error}): pip install 'hotloop[quant]'"
        ) from error
    finally:
        log.removeFilter(_is_of_use)
    return bitsandbytes


def _is_of_use(record: logging.LogRecord) -> bool:
    return "gemm_4bit_forward" not in record.msg


def is_quantised(weight: Tensor) -> bool:
    """Return whether a weight is packed, by us or by transformers in 4 bits."""
    return getattr(weight, "quant_state", None) is not None


def elements(parameter: Tensor) -> int:
    """Return the number of elements of a parameter; a packed byte holds two."""
    if is_quantised(parameter):
        height, width = parameter.quant_state.shape  # type: ignore[attr-defined]
        return int(height) * int(width)
    return parameter.numel()


def frozen_product(x_NI: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + bias, [N, O], for a plain weight, or a packed one, which gets no gradient.

    For a packed weight, x must be in the dtype of the computation, which is that of the result. A
    plain weight of another dtype is cast to that of x where autocast does not choose one.
    """
    if not is_quantised(weight):
        if not torch.is_autocast_enabled(x_NI.device.type):
            weight, bias = weight.to(x_NI.dtype), None if bias is None else bias.to(x_NI.dtype)
        return functional.linear(x_NI, weight, bias)
    bias = None if bias is None else bias.to(x_NI.dtype)
    import bitsandbytes

    product: Tensor = bitsandbytes.matmul_4bit(  # type: ignore[attr-defined]
        x_NI,
        weight,
        bias=bias,
        quant_state=weight.quant_state,  # type: ignore[attr-defined]
    )
    return product


def dtype_of(weight: Tensor) -> torch.dtype:
    """Return the dtype of a weight; for a packed one, its dtype before packing."""
    if not is_quantised(weight):
        return weight.dtype
    dtype: torch.dtype = weight.quant_state.dtype  # type: ignore[attr-defined]
    return dtype


def in_dtype(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a plain weight in a dtype; a packed weight unchanged."""
    return weight if is_quantised(weight) else weight.to(dtype)


def unpacked(weight: Tensor) -> Tensor:
    """Return a weight as a plain one, [O, I], in the dtype it had before it was packed."""
    if not is_quantised(weight):
        return weight
    from bitsandbytes.functional import dequantize_4bit

    return dequantize_4bit(weight.detach(), weight.quant_state)  # type: ignore[attr-defined]


def rows(weight: Tensor) -> Iterator[Tensor]:
    """Yield a weight in fp32, [rows, I] at a time, so that the whole weight is never in fp32.

    A plain fp32 weight is yielded unchanged.
    """
    if is_quantised(weight):
        yield from _unpacked(weight, weight.quant_state)  # type: ignore[attr-defined]
    elif weight.dtype == torch.float32:
        yield weight
    else:
        at_once = max(1, _AT_ONCE // weight.shape[1])
        for first in range(0, weight.shape[0], at_once):
            yield weight[first : first + at_once].float()


def _unpacked(packed: Tensor, state: Any) -> Iterator[Tensor]:
    if getattr(state, "packing_format_for_cpu", False):  # bitsandbytes' Linear4bit in eval mode
        raise ConfigError(
            "a 4-bit weight was repacked for inference on CPU by bitsandbytes: attach adapters "
            "before the model is evaluated"
        )
    from bitsandbytes import functional as bnb

    scales = state.absmax
    if state.nested:
        scales = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
    scales, flat = scales.float(), packed.detach().reshape(-1).view(torch.uint8)
    height, width = state.shape
    step = max(1, _AT_ONCE // width // _ALIGNED) * _ALIGNED
    for first in range(0, height, step):
        last = min(first + step, height)
        begin, end = first * width, last * width
        part = bnb.QuantState(  # type: ignore[no-untyped-call]
            absmax=scales[begin // state.blocksize : -(-end // state.blocksize)],
            shape=torch.Size((last - first, width)),
            code=state.code,
            blocksize=state.blocksize,
            quant_type=state.quant_type,
            dtype=torch.float32,
        )
        block: Tensor = bnb.dequantize_4bit(flat[begin // 2 : -(-end // 2)].view(-1, 1), part)
        yield block


class Nf4Linear(nn.Linear):
    """A frozen linear layer whose weight is packed."""

    compute_dtype: torch.dtype

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O] in the dtype of x."""
        y = frozen_product(x.to(self.compute_dtype), self.weight, self.bias)
        return y.to(x.dtype)


def quantise(
    model: nn.Module,
    *,
    keep: Sequence[str] = (),
    compute: torch.dtype = torch.bfloat16,
    device: torch.device | None = None,
) -> list[str]:
    """Pack the weights of all linear layers but `keep` in place; return the layers' names.

    Weights are moved one by one to `device` (None: they stay where they are) before they are
    packed. Raises ConfigError for a weight that another module shares or that cannot be unpacked
    correctly, DeviceError without bitsandbytes.
    """
    bnb = _bitsandbytes()
    layers = {
        name: module
        for name, module in model.named_modules()
        if type(module) is nn.Linear and name not in keep
    }
    _refuse_shared(model, layers)
    for width, place in {(m.in_features, device or m.weight.device) for m in layers.values()}:
        if not _is_unpacked_well(width, place):
            name = next(name for name, m in layers.items() if m.in_features == width)
            raise ConfigError(
                f"bitsandbytes {bnb.__version__} unpacks rows of {width} wrongly on {place.type}, "
                f"as in {name}: keep such layers out of 4 bits"
            )
    for module in layers.values():
        weight = module.weight.detach()
        module.weight = _packed(weight if device is None else weight.to(device))
        if module.bias is not None:
            module.bias = nn.Parameter(
                module.bias.detach().to(module.weight.device), requires_grad=False
            )
        module.__class__ = Nf4Linear
        module.compute_dtype = compute  # type: ignore[assignment]
    return list(layers)


def _packed(weight: Tensor) -> nn.Parameter:
    """Return a weight as a packed parameter of bitsandbytes."""
    bnb = _bitsandbytes()
    form: dict[str, Any] = {"blocksize": _BLOCK, "compress_statistics": True, "quant_type": "nf4"}
    packed, state = bnb.functional.quantize_4bit(weight, **form)
    parameter: nn.Parameter = bnb.nn.Params4bit(
        packed, requires_grad=False, quant_state=state, bnb_quantized=True, **form
    )
    return parameter


def _is_unpacked_well(width: int, device: torch.device) -> bool:
    """Return whether rows of a width are unpacked correctly, for any scales.

    On a CPU with AVX-512, bitsandbytes 0.50.2 assumes that every row begins a block of 64.
    """
    scales = torch.tensor([1.0, 2.0, 0.5]).repeat(3 * width // _BLOCK + 1)
    scales = scales.repeat_interleave(_BLOCK)[: 4 * width].view(4, width)
    values = torch.linspace(-1, 1, 4 * width).view(4, width)
    restored = unpacked(_packed((values * scales).to(device))).cpu() / scales
    # half of NF4's widest gap is 0.152 of a block's largest value; scales are quantised to 8 bits
    return bool(((restored - values).abs() < 0.25).all())


def _refuse_shared(model: nn.Module, layers: dict[str, nn.Linear]) -> None:
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    for name, module in layers.items():
        shared = [user for user in users[id(module.weight)] if user != f"{name}.weight"]
        if shared:
            raise ConfigError(f"{name} shares its weight with {shared[0]}: keep it out of 4 bits")
