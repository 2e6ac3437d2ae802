"""Operators that a Python loop calls one by one, and one call on all tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms, random_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.rewrite import Rewrite

__all__ = ["looped"]


def looped(rewrite: Rewrite) -> Forms:
    """Return both forms.

    Raises:
        ValueError: the rewrite has no operator.
    """
    match rewrite.form:
        case "copy_":
            return _written(rewrite)
        case "numbers":
            return _numbers(rewrite)
    return _called(rewrite)


def _called(rewrite: Rewrite) -> Forms:
    """Return the calls of a loop, and the operators that do the same on all tensors at once."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    looped, count = rewrite.looped, rewrite.in_loop
    if looped is None:
        raise ValueError("no operator is known")
    packet, _, overload = looped.name.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    whole = [
        random_tensor(shape if shared else (count, *shape), dtype, rewrite, needs_grad)
        for shape, shared, dtype, needs_grad in zip(
            rewrite.shapes, looped.shared, rewrite.dtypes, rewrite.needs_grad, strict=True
        )
    ]
    arguments = json.loads(looped.arguments)

    def call(*given: Any) -> Any:
        tensors = iter(given)
        return operator(*(next(tensors) if one == "tensor" else one for one in arguments))

    dimensions = tuple(None if shared else 0 for shared in looped.shared)
    plain = [one.detach() for one in whole]
    at_once = make_fx(torch.func.vmap(call, in_dims=dimensions))(*plain)
    items = [  # a tensor for each call
        [one] * count if shared else [item.requires_grad_(one.requires_grad) for item in own]
        for one, own, shared in zip(whole, plain, looped.shared, strict=True)
    ]

    def calls(sources: Sequence[Sequence[Any]]) -> list[Any]:
        return [call(*(source[number] for source in sources)) for number in range(count)]

    parts = [
        [one] * count if shared else one for one, shared in zip(whole, looped.shared, strict=True)
    ]
    usual = [
        part if is_item else own
        for part, own, is_item in zip(parts, items, looped.are_items, strict=True)
    ]
    return Forms(
        inputs=whole,
        weights=[
            item
            for own, shared in zip(items, looped.shared, strict=True)
            for item in own
            if not shared
        ],
        old=lambda: calls(usual),
        new=lambda: [at_once(*whole)],
        exact=(lambda: [torch.stack(calls(parts))], lambda: [at_once(*whole)]),
    )


def _written(rewrite: Rewrite) -> Forms:
    """Return the writes of a loop into one tensor, item by item, and one stack of all items.

    Where gradients flow, the backward pass of each write copies the gradient of the whole tensor.
    """
    import torch

    shape, count, needs_grad = rewrite.shapes[1], rewrite.in_loop, rewrite.needs_grad[1]
    source = random_tensor((count, *shape), rewrite.dtypes[1], rewrite, needs_grad)
    items = [item.detach().requires_grad_(needs_grad) for item in source]
    size, dtype = (count, *rewrite.shapes[0]), getattr(torch, rewrite.dtypes[0])

    def written(sources: Sequence[Any]) -> list[Any]:
        result = torch.zeros(size, dtype=dtype, device=rewrite.device)
        for number in range(count):
            result[number] = sources[number]
        return [result]

    def at_once(sources: Sequence[Any]) -> list[Any]:
        return [torch.stack(list(sources)).to(dtype).expand(size)]

    return Forms(
        inputs=[source],
        weights=items,
        old=lambda: written(items),
        new=lambda: at_once(items),
        exact=(lambda: written(source), lambda: at_once(source)),
    )


def _numbers(rewrite: Rewrite) -> Forms:
    """Return the writes of Python numbers into a tensor, one by one, and one index assignment.

    Where the positions are in order, torch.tensor() alone is faster still.
    """
    import torch

    dtype, count = getattr(torch, rewrite.dtypes[0]), rewrite.in_loop
    numbers, positions = torch.arange(count).remainder(2).to(dtype).tolist(), list(range(count))

    def written() -> list[Any]:
        result = torch.zeros(count, dtype=dtype, device=rewrite.device)
        for position, number in enumerate(numbers):
            result[position] = number
        return [result]

    def at_once() -> list[Any]:
        result = torch.zeros(count, dtype=dtype, device=rewrite.device)
        values = torch.tensor(numbers, dtype=dtype, device=rewrite.device)
        result[torch.tensor(positions, device=rewrite.device)] = values
        return [result]

    return Forms(inputs=[], old=written, new=at_once, exact=(written, at_once))
