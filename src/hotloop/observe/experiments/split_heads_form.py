"""Attention whose heads are computed one by one, and all of them at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms

if TYPE_CHECKING:
    from hotloop.core.case.rewrite import Rewrite

__all__ = ["split_heads"]


def split_heads(rewrite: Rewrite, masks: list[tuple[bool, Any]]) -> Forms:
    """Return both forms; `masks` says of each tensor whether it is added to the scores."""
    import torch
    from torch.nn.functional import dropout, linear

    heads, dtype = rewrite.in_loop, getattr(torch, rewrite.dtypes[0])
    (*_, width), (batch, length, size), (_, _, out) = rewrite.shapes

    def tensor(*shape: int, needs_grad: bool) -> Any:
        made = torch.randn(*shape, dtype=dtype, device=rewrite.device) * shape[-1] ** -0.5
        return made.requires_grad_(needs_grad)

    given = tensor(batch * length, width, needs_grad=rewrite.needs_grad[0])
    trains = rewrite.needs_grad[1]
    sizes = [size] * heads + [size] * heads + [out] * heads
    weights = [tensor(rows, width, needs_grad=trains) for rows in sizes]
    wide = torch.cat([one.detach() for one in weights]).requires_grad_(trains)
    biases = [tensor(rows, needs_grad=trains) for rows in sizes] if rewrite.form else []
    flat = torch.cat([one.detach() for one in biases]).requires_grad_(trains) if biases else None

    def attended(query: Any, key: Any, value: Any, p: float) -> Any:
        scores = query @ key.transpose(-2, -1) * size**-0.5
        for is_added, mask in masks:
            scores = scores + mask if is_added else scores.masked_fill(mask, -math.inf)
        shares = scores.to(getattr(torch, rewrite.dtypes[1])).softmax(-1)
        return (dropout(shares, p) if p else shares).to(dtype) @ value

    def old(p: float) -> list[Any]:
        parts = [
            linear(given, weight, biases[n] if biases else None).view(batch, length, -1)
            for n, weight in enumerate(weights)
        ]
        queries, keys, values = parts[:heads], parts[heads : 2 * heads], parts[2 * heads :]
        return [
            attended(query, key, value, p)
            for query, key, value in zip(queries, keys, values, strict=True)
        ]

    def new(p: float) -> list[Any]:
        sizes = [size * heads, size * heads, out * heads]
        query, key, value = (
            part.view(batch, length, heads, -1).transpose(1, 2)
            for part in torch.functional.split(linear(given, wide, flat), sizes, -1)
        )
        return [attended(query, key, value, p)]

    return Forms(
        inputs=[given],
        old=lambda: old(rewrite.dropout),
        new=lambda: new(rewrite.dropout),
        exact=(lambda: [torch.stack(old(0.0), 1)], lambda: new(0.0)),
        weights=[*weights, *biases, wide, *([] if flat is None else [flat])],
    )
