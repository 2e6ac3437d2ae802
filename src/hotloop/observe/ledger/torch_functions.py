"""Recognises a function that is applied element by element, by its values, among torch's own."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotloop.core.case.rewrite import PointwiseStep

__all__ = ["POINTWISE", "composed", "same_in_torch"]

# Operators that are applied element by element, without what torch computes at random.
POINTWISE: Final = frozenset(
    {
        *("add", "sub", "rsub", "mul", "div", "neg", "reciprocal", "pow", "sqrt", "rsqrt"),
        *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "erfc", "softplus"),
        *("abs", "sign", "clamp", "clamp_min", "clamp_max", "maximum", "minimum"),
        *("relu", "leaky_relu", "hardtanh", "elu", "silu", "gelu"),
        *("gt", "ge", "lt", "le", "where"),
    }
)
_ACTIVATIONS: Final = (
    *("gelu", "silu", "mish", "relu", "relu6", "softplus", "hardswish", "hardsigmoid"),
    *("elu", "selu", "logsigmoid"),
)
_OF_TORCH: Final = (
    *("sigmoid", "tanh", "log1p", "expm1", "exp", "rsqrt", "sqrt", "reciprocal", "square"),
    *("abs", "sign", "erf"),
)
_RANGE: Final = (-30.0123, 29.9871, 4001)  # the inputs; no kink of a function is among them
_FEW: Final = 400  # every n-th is looked at first
_ROUNDING: Final = 1e-6  # of a value, or of 1 if it is smaller: constants have 7 digits
_LEAST: Final = 0.25  # share of the inputs that have a value


def composed(steps: Sequence[PointwiseStep]) -> Callable[[Any], Any]:
    """Return the function that these operators compute of a tensor."""
    import torch

    functions: list[Any] = [
        getattr(torch, step.name, None) or getattr(torch._C._nn, step.name) for step in steps
    ]

    def function(given: Any) -> Any:
        values = [given]
        for step, operator in zip(steps, functions, strict=True):
            numbers = iter(step.numbers)
            arguments = [values[n] if n >= 0 else next(numbers) for n in step.inputs]
            values.append(operator(*arguments))
        return values[-1]

    return function


@functools.lru_cache(maxsize=4096)
def same_in_torch(steps: tuple[PointwiseStep, ...]) -> tuple[str, Callable[[Any], Any]] | None:
    """Return torch's call with the same values and gradients, with the function; or None."""
    import torch

    function = composed(steps)
    every = torch.linspace(*_RANGE, dtype=torch.float64, device="cpu")
    with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        try:
            with torch.no_grad():
                few = function(every[::_FEW])
                for name, other in _candidates(function):
                    if not _is_same(few, other(every[::_FEW])):
                        continue
                    if _is_same(function(every), other(every)) and _is_same(
                        _slope(function, every), _slope(other, every)
                    ):
                        return name, other
        except (RuntimeError, TypeError):  # no operator for such arguments
            return None
    return None


def _slope(function: Callable[[Any], Any], inputs: Any) -> Any:
    import torch

    with torch.enable_grad():
        given = inputs.clone().requires_grad_()
        return torch.autograd.grad(function(given).sum(), given)[0]


def _is_same(one: Any, other: Any) -> bool:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    has_value = torch.isfinite(one)
    if not torch.equal(has_value, torch.isfinite(other)) or has_value.double().mean() < _LEAST:
        return False
    one, other = one[has_value], other[has_value]
    return bool(((one - other).abs() <= _ROUNDING * other.abs().clamp(min=1.0)).all())


def _candidates(function: Callable[[Any], Any]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the functions that torch computes in one operator, with the call that a user writes."""
    import torch
    from torch.nn import functional as F  # noqa: N812 - as users write it

    yield "F.gelu(x, approximate='tanh')", lambda x: F.gelu(x, approximate="tanh")
    for name in _ACTIVATIONS:
        yield f"F.{name}(x)", getattr(F, name)
    for name in _OF_TORCH:
        yield f"torch.{name}(x)", getattr(torch, name)
    # Functions with a number: what it must be shows at one input.
    points = torch.tensor([-1.0, -40.0, 0.0], dtype=torch.float64, device="cpu")
    at_one, far, at_zero = map(float, function(points))
    if 0 < (slope := _rounded(-at_one)) < 1:
        yield f"F.leaky_relu(x, {slope:g})", lambda x: F.leaky_relu(x, slope)
    if (alpha := _rounded(-far)) > 0:
        yield f"F.elu(x, {alpha:g})", lambda x: F.elu(x, alpha)
    if at_zero > 0 and (beta := _rounded(math.log(2) / at_zero)) > 0:
        yield f"F.softplus(x, {beta:g})", lambda x: F.softplus(x, beta)


def _rounded(number: float) -> float:
    return float(f"{number:.4g}") if math.isfinite(number) else 0.0
