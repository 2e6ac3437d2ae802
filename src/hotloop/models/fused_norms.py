"""Replace RMS norms that are written out by torch's fused one, after a proof that they are equal.

Dims: D width. Written out, a norm is some 17 kernels on a GPU, forward and backward; fused it is 2,
and the input and one number for each row are all that is kept.
"""

from __future__ import annotations

import copy
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["FusedNorm", "fuse"]

_EPS: Final = ("variance_epsilon", "eps")
_WIDTH: Final = 16  # of what a module is tried with
_CLOSE: Final = 1e-5  # share of the largest output: float32 with sums in another order


class FusedNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * (weight + offset), computed in float32."""

    weight: nn.Parameter
    epsilon: float
    offset: float  # 1 where the weight begins at 0
    keeps: bool  # whether the output has the dtype of the input, else float32

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        weight_D = self.weight + self.offset if self.offset else self.weight
        y = functional.rms_norm(x.float(), weight_D.shape, weight_D, self.epsilon)
        return y.to(x.dtype) if self.keeps else y


def fuse(model: nn.Module) -> list[str]:
    """Replace the RMS norms of a model in place; return their names.

    A module counts as one if its only tensor is a float32 weight [D] and a copy of it with a random
    weight has the formula's output for random inputs. Modules of one class are tried once.
    """
    known: dict[tuple[type, float], tuple[float, bool] | None] = {}
    names = []
    for name, module in model.named_modules():
        epsilon = _epsilon(module)
        if epsilon is None:
            continue
        key = type(module), epsilon
        if key not in known:
            known[key] = _form(module, epsilon)
        if (form := known[key]) is None:
            continue
        module.__class__ = FusedNorm
        assert isinstance(module, FusedNorm)
        module.epsilon, (module.offset, module.keeps) = epsilon, form
        names.append(name)
    return names


def _epsilon(module: nn.Module) -> float | None:
    """Return the epsilon of a module that may be an RMS norm, or None."""
    if isinstance(module, FusedNorm | nn.RMSNorm) or next(module.children(), None) is not None:
        return None
    tensors = [*module.named_parameters(), *module.named_buffers()]
    if [name for name, _ in tensors] != ["weight"]:
        return None
    weight = tensors[0][1]
    if weight.dim() != 1 or weight.dtype != torch.float32:
        return None
    found = next((module.__dict__[name] for name in _EPS if name in module.__dict__), None)
    return found if isinstance(found, float) else None


def _form(module: nn.Module, epsilon: float) -> tuple[float, bool] | None:
    """Return the offset of a norm's weight and whether it keeps dtypes; None for another module."""
    with _disable_current_modes(), torch.no_grad():  # also of a forecast, whose tensors are empty
        drawn = torch.Generator().manual_seed(0)
        x = torch.randn(2, 3, _WIDTH, generator=drawn, device="cpu")
        weight = torch.randn(_WIDTH, generator=drawn, device="cpu")
        probe = copy.copy(module)
        probe._parameters = {"weight": nn.Parameter(weight)}
        with torch.autocast("cpu", enabled=False):
            try:
                y, of_low = probe.forward(x), probe.forward(x.to(torch.bfloat16))
            except (RuntimeError, TypeError, ValueError, AttributeError, LookupError):
                return None  # it takes something else than rows
        normed = x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        for offset in (0.0, 1.0):
            if _is_close(y, normed * (weight + offset)):
                return offset, of_low.dtype == torch.bfloat16
    return None


def _is_close(y: object, expected: Tensor) -> bool:
    if not isinstance(y, Tensor) or y.shape != expected.shape:
        return False
    return bool((y - expected).abs().max() <= _CLOSE * expected.abs().max())
