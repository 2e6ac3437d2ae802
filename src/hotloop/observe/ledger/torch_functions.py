"""Recognises a function of each element, or of each row, by its values, among torch's own."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hotloop.core.case.rewrite import FunctionStep

__all__ = ["OF_ROWS", "POINTWISE", "composed", "same_in_torch"]

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
# What is computed of each row: one value, or the row anew.
OF_ROWS: Final = frozenset({"mean", "sum", "var", "std", "max", "amax", "_softmax", "_log_softmax"})
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
_ROWS: Final = 7
_COLUMNS: Final = 3  # from which a function of rows is told from others
_FLAT: Final = 1e-2  # factor that makes rows nearly constant
_SMALL: Final = 0.1  # a number below it may be the epsilon of a normalisation
_OF_EPSILON: Final = 1e-5  # as _ROUNDING, where an epsilon is added to a root or to its square
_UNBIASED: Final = "(1 - 1 / x.shape[-1]) ** 0.5"  # torch.std() divides by one less
_LEAST: Final = 0.25  # share of the inputs that have a value


def composed(steps: Sequence[FunctionStep]) -> Callable[..., Any]:
    """Return the function that these operators compute of a tensor, and of weights if any."""
    functions = [_operator(step) for step in steps]

    def function(given: Any, *weights: Any) -> Any:
        values = [given]
        for step, operator in zip(steps, functions, strict=True):
            numbers = iter(step.numbers)
            arguments = [
                values[n] if n >= 0 else next(numbers) if n == -1 else weights[-2 - n]
                for n in step.inputs
            ]
            values.append(operator(*arguments, *numbers))
        return values[-1]

    return function


def _operator(step: FunctionStep) -> Callable[..., Any]:
    """Return torch's function of a step; what it computes of a row is kept as a column."""
    import torch

    match step.name:
        case "_softmax" | "_log_softmax":
            of_rows = getattr(torch, step.name[1:])
            return lambda x: of_rows(x, -1)
        case "max" | "amax":
            return lambda x: torch.amax(x, -1, keepdim=True)
        case "var" | "std":
            spread = getattr(torch, step.name)
            return lambda x, n: spread(x, -1, correction=n, keepdim=True)
        case "mean" | "sum":
            reduced = getattr(torch, step.name)
            return lambda x: reduced(x, -1, keepdim=True)
    operator: Callable[..., Any] = getattr(torch, step.name, None) or getattr(
        torch._C._nn, step.name
    )
    return operator


@functools.lru_cache(maxsize=4096)
def same_in_torch(
    steps: tuple[FunctionStep, ...], columns: int = 1, weights: int = 0
) -> tuple[str, Callable[..., Any]] | None:
    """Return torch's call with the same values and gradients, with the function; or None.

    The input has `columns`; `weights` are tensors with a number for each of them.
    """
    import torch

    function = composed(steps)
    with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        try:
            if weights or any(step.name in OF_ROWS for step in steps):
                if columns < _COLUMNS:
                    return None
                return _same_of_rows(steps, function, columns, weights)
            return _same_of_elements(function)
        except (RuntimeError, TypeError):  # no operator for such arguments
            return None


def _same_of_elements(function: Callable[..., Any]) -> tuple[str, Callable[..., Any]] | None:
    import torch

    every = torch.linspace(*_RANGE, dtype=torch.float64, device="cpu")
    with torch.no_grad():
        few = function(every[::_FEW])
        for name, other in _candidates(function):
            if not _is_same(few, other(every[::_FEW])):
                continue
            if _is_same(function(every), other(every)) and _is_same(
                *_slopes(function, other, every)
            ):
                return name, other
    return None


def _same_of_rows(
    steps: Sequence[FunctionStep], function: Callable[..., Any], columns: int, weights: int
) -> tuple[str, Callable[..., Any]] | None:
    import torch

    noise = torch.Generator("cpu").manual_seed(0)
    size = {"generator": noise, "dtype": torch.float64, "device": "cpu"}
    given = torch.randn(_ROWS, columns, **size) * 2 + 0.7  # type: ignore[call-overload]
    others = [torch.randn(columns, **size) for _ in range(weights)]  # type: ignore[call-overload]
    numbers = {n for step in steps for n in step.numbers if n is not None and 0 < n < _SMALL}
    epsilons = sorted({0.0, *numbers, *(n * n for n in numbers)})
    same: dict[str, tuple[float, str, Callable[..., Any]]] = {}
    with torch.no_grad():
        expected, nearly = function(given, *others), function(given * _FLAT, *others)
        for name, other in _candidates_of_rows(columns, weights, epsilons):
            if not _is_same(expected, other(given, *others), _OF_EPSILON):
                continue
            if _is_same(*_slopes(function, other, given, *others), _OF_EPSILON):
                # Rows that are nearly constant tell which epsilon it is.
                far = float((nearly - other(given * _FLAT, *others)).abs().max())
                same[name] = far, name, other
    if not same:
        return None
    _, name, other = min(same.values(), key=lambda one: one[0])
    return name, other


def _slopes(one: Callable[..., Any], other: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """Return the gradients of all inputs through both functions, each in one tensor."""
    import torch

    results = []
    with torch.enable_grad():
        for function in (one, other):
            given = [tensor.clone().requires_grad_() for tensor in inputs]
            output = function(*given)
            ramp = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype, device="cpu")
            slopes = torch.autograd.grad((output.flatten() * ramp).sum(), given)
            results.append(torch.cat([slope.flatten() for slope in slopes]))
    return results[0], results[1]


def _is_same(one: Any, other: Any, rounding: float = _ROUNDING) -> bool:
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    has_value = torch.isfinite(one)
    if not torch.equal(has_value, torch.isfinite(other)) or has_value.double().mean() < _LEAST:
        return False
    one, other = one[has_value], other[has_value]
    return bool(((one - other).abs() <= rounding * other.abs().clamp(min=1.0)).all())


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


def _candidates_of_rows(
    columns: int, weights: int, epsilons: Sequence[float]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of rows that torch computes in one operator."""
    from torch.nn import functional as F  # noqa: N812 - as users write it

    unbiased = math.sqrt((columns - 1) / columns)

    def layer_norm(eps: float, factor: float = 1.0) -> Callable[..., Any]:
        def function(x: Any, weight: Any = None, bias: Any = None) -> Any:
            scaled = weight if factor == 1 else weight * factor
            return F.layer_norm(x, (columns,), scaled, bias, eps)

        return function

    def rms_norm(eps: float) -> Callable[..., Any]:
        return lambda x, weight=None: F.rms_norm(x, (columns,), weight, eps)

    given = ["x", "x.shape[-1:]", *("weight", "bias")[:weights]]
    for eps in epsilons:
        call = ", ".join([*given, f"eps={eps:g}"])
        if weights < 2:
            yield f"F.rms_norm({call})", rms_norm(eps)
        yield f"F.layer_norm({call})", layer_norm(eps)
        if weights:
            scaled = call.replace("weight", f"{_UNBIASED} * weight")
            yield f"F.layer_norm({scaled})", layer_norm(eps, unbiased)
    if not weights:
        yield "F.softmax(x, -1)", lambda x: F.softmax(x, -1)
        yield "F.log_softmax(x, -1)", lambda x: F.log_softmax(x, -1)


def _rounded(number: float) -> float:
    return float(f"{number:.4g}") if math.isfinite(number) else 0.0
