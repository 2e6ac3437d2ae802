"""The two forms of work that can be written in another way, on random tensors of its shapes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms, random_tensor
from hotloop.observe.experiments.looped_forms import looped
from hotloop.observe.experiments.recurrent_forms import recurrent
from hotloop.observe.experiments.repeated_rows_form import repeated_rows
from hotloop.observe.experiments.sparse_forms import sparse
from hotloop.observe.experiments.split_heads_form import split_heads
from hotloop.observe.ledger.torch_functions import composed, same_in_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.rewrite import AttentionMask, Rewrite

__all__ = ["forms"]

_MASKED = 0.2  # share of the scores that a mask leaves out


def forms(rewrite: Rewrite) -> Forms:
    """Return both forms of a rewrite with tensors for them."""
    match rewrite.kind:
        case "attention":
            return _attention(rewrite)
        case "contraction":
            return _contraction(rewrite)
        case "composed function":
            return _composed(rewrite)
        case "looped operator":
            return looped(rewrite)
        case "recurrent cell":
            return recurrent(rewrite)
        case "sparse product":
            return sparse(rewrite)
        case "repeated rows":
            return repeated_rows(rewrite)
        case "split heads":
            masks = [(mask.is_added, _mask(mask, rewrite)) for mask in rewrite.masks]
            return split_heads(rewrite, masks)
    return _lstm(rewrite) if rewrite.form.startswith("lstm") else _products(rewrite)


def _attention(rewrite: Rewrite) -> Forms:
    from torch.nn.functional import dropout, scaled_dot_product_attention, softmax

    inputs = []
    for (batch, heads, length, size), needs_grad in zip(
        rewrite.shapes, rewrite.needs_grad, strict=True
    ):
        shape = (batch, length, heads, size) if rewrite.is_copied else (batch, heads, length, size)
        inputs.append(random_tensor(shape, rewrite.dtypes[0], rewrite, needs_grad))
    query, key, value = (x.transpose(1, 2) if rewrite.is_copied else x for x in inputs)
    masks = [(mask, _mask(mask, rewrite)) for mask in rewrite.masks]
    scale, softmax_dtype = rewrite.shapes[0][-1] ** -0.5, _softmax_dtype(rewrite)

    def old(p: float) -> tuple[Any]:
        scores = ((query @ key.transpose(-1, -2)) * scale).to(softmax_dtype)
        for mask, tensor in masks:
            scores = scores + tensor if mask.is_added else scores.masked_fill(tensor, -math.inf)
        weights = dropout(softmax(scores, -1), p) if p else softmax(scores, -1)
        return (weights.to(value.dtype) @ value,)

    is_causal = len(masks) == 1 and rewrite.masks[0].is_causal
    kept = [~tensor for mask, tensor in masks if not mask.is_added]
    added = [tensor for mask, tensor in masks if mask.is_added]

    def new(p: float) -> tuple[Any]:
        mask = None
        if masks and not is_causal:
            mask = _both(kept, [tensor.to(value.dtype) for tensor in added])
        return (scaled_dot_product_attention(query, key, value, mask, p, is_causal),)

    learned = [tensor for mask, tensor in masks if mask.needs_grad]
    return Forms(
        inputs=[*inputs, *learned],
        old=lambda: old(rewrite.dropout),
        new=lambda: new(rewrite.dropout),
        exact=(lambda: old(0.0), lambda: new(0.0)),
    )


def _both(kept: Sequence[Any], added: Sequence[Any]) -> Any:
    """Return one mask for all: True where a score is kept, or what is added to it."""
    if not added:
        mask = kept[0]
        for other in kept[1:]:
            mask = mask & other
        return mask
    mask = added[0]
    for other in added[1:]:
        mask = mask + other
    for other in kept:
        mask = mask.masked_fill(~other, -math.inf)
    return mask


def _softmax_dtype(rewrite: Rewrite) -> Any:
    import torch

    return getattr(torch, rewrite.dtypes[1])


def _mask(mask: AttentionMask, rewrite: Rewrite) -> Any:
    """Return a mask that leaves no row empty."""
    import torch

    if mask.is_causal:
        out = torch.ones(mask.shape[-2:], dtype=torch.bool, device=rewrite.device).triu(1)
        out = out.expand(mask.shape).contiguous()
    elif mask.is_added:
        return random_tensor(mask.shape, rewrite.dtypes[1], rewrite, mask.needs_grad)
    else:
        out = torch.rand(mask.shape, device=rewrite.device) < _MASKED
        out[..., 0] = False
    if mask.is_added:
        scores = torch.zeros(mask.shape, dtype=_softmax_dtype(rewrite), device=rewrite.device)
        return scores.masked_fill(out, -math.inf)
    return out


def _contraction(rewrite: Rewrite) -> Forms:
    import torch

    left, right = (
        random_tensor(shape, rewrite.dtypes[0], rewrite, needs_grad)
        for shape, needs_grad in zip(rewrite.shapes, rewrite.needs_grad, strict=True)
    )
    reduced = list(rewrite.reduced)
    both = [d for d in reduced if left.shape[d] > 1 and right.shape[d] > 1]
    rest = [d for d in reduced if d not in both]
    inner = [
        1 if d in both else max(pair)
        for d, pair in enumerate(zip(left.shape, right.shape, strict=True))
    ]

    def old() -> tuple[Any]:
        if rewrite.form == "product":
            return ((left * right).sum(reduced, keepdim=True),)
        difference = left - right
        if rewrite.form == "norm":
            return (torch.linalg.vector_norm(difference, dim=reduced, keepdim=True),)
        size = difference.abs() if rewrite.form == "absolute" else difference.pow(2)
        return (size.sum(reduced, keepdim=True),)

    def new() -> tuple[Any]:
        if rewrite.form == "product":
            return (_product(left, right, reduced),)
        if rewrite.form == "squared":
            squares = left.square().sum(both, keepdim=True), right.square().sum(both, keepdim=True)
            result = squares[0] + squares[1] - 2 * _product(left, right, both)
            return (result.sum(rest, keepdim=True) if rest else result,)
        p = 1.0 if rewrite.form == "absolute" else 2.0
        return (_distances(left, right, both, p).reshape(inner),)

    return Forms(inputs=[left, right], old=old, new=new, exact=(old, new))


def _product(left: Any, right: Any, summed: Sequence[int]) -> Any:
    """Return the sum of a product without the product, with 1 for the summed dimensions."""
    import torch

    names = [[d for d, size in enumerate(one.shape) if size > 1] for one in (left, right)]
    kept = [d for d in range(left.dim()) if d not in summed and any(d in own for own in names)]
    shape = [
        1 if d in summed else max(pair)
        for d, pair in enumerate(zip(left.shape, right.shape, strict=True))
    ]
    small = [
        one.reshape([one.shape[d] for d in own])
        for one, own in zip((left, right), names, strict=True)
    ]
    return torch.einsum(small[0], names[0], small[1], names[1], kept).reshape(shape)


def _distances(left: Any, right: Any, summed: Sequence[int], p: float) -> Any:
    """Return the distances of all pairs, in the order of the dimensions that are left."""
    import torch

    rank = left.dim()
    batch = [d for d in range(rank) if d not in summed and left.shape[d] == right.shape[d]]
    rows, columns = (
        [d for d in range(rank) if d not in (*summed, *batch) and one.shape[d] > 1]
        for one in (left, right)
    )

    def flat(one: Any, own: Sequence[int], other: Sequence[int]) -> Any:
        ordered = one.permute(*batch, *other, *own, *summed)
        sizes = (math.prod(one.shape[d] for d in dims) for dims in (batch, own, summed))
        return ordered.reshape(*sizes)

    pairs = torch.cdist(flat(left, rows, columns), flat(right, columns, rows), p=p)
    order = [*batch, *rows, *columns]
    sizes = [max(left.shape[d], right.shape[d]) for d in order]
    return pairs.reshape(sizes).permute(*(order.index(d) for d in sorted(order)))


def _composed(rewrite: Rewrite) -> Forms:
    shape, *of_weights = rewrite.shapes
    function = composed(rewrite.steps)
    torch_function = same_in_torch(rewrite.steps, shape[-1], len(of_weights))
    if torch_function is None:
        raise ValueError("torch has no such function")
    _, other = torch_function
    given, *weights = (
        random_tensor(size, rewrite.dtypes[0], rewrite, needs_grad)
        for size, needs_grad in zip(rewrite.shapes, rewrite.needs_grad, strict=True)
    )

    def old() -> tuple[Any]:
        return (function(given, *weights),)

    def new() -> tuple[Any]:
        return (other(given, *weights),)

    return Forms(inputs=[given, *weights], old=old, new=new, exact=(old, new))


def _products(rewrite: Rewrite) -> Forms:
    import torch

    dtype = rewrite.dtypes[0]
    given = random_tensor(rewrite.shapes[0], dtype, rewrite, rewrite.needs_grad[0])
    shapes, needs_grad = rewrite.shapes[1:], any(rewrite.needs_grad[1:])
    sizes = [size for _, size in shapes]
    has_bias = rewrite.form == "with bias"
    weights = [random_tensor((size, inner), dtype, rewrite, needs_grad) for inner, size in shapes]
    biases = (
        [random_tensor((size,), dtype, rewrite, needs_grad) for size in sizes] if has_bias else []
    )
    wide = torch.cat([one.detach() for one in weights]).requires_grad_(needs_grad)
    bias = (
        torch.cat([one.detach() for one in biases]).requires_grad_(needs_grad) if biases else None
    )

    def old() -> list[Any]:
        if not biases:
            return [torch.nn.functional.linear(given, weight) for weight in weights]
        return [
            torch.nn.functional.linear(given, weight, one)
            for weight, one in zip(weights, biases, strict=True)
        ]

    def new() -> Sequence[Any]:
        outputs: Any = torch.nn.functional.linear(given, wide, bias)
        return list(torch.split(outputs, sizes, -1))

    return Forms(
        inputs=[given],
        old=old,
        new=new,
        exact=(old, new),
        weights=[*weights, *biases, wide, *([] if bias is None else [bias])],
        adds_up=rewrite.in_loop > 1,
    )


def _lstm(rewrite: Rewrite) -> Forms:
    import torch

    (length, batch, size), (joined, hidden) = rewrite.shapes
    dtype, needs_grad = rewrite.dtypes[0], rewrite.needs_grad[1]
    given = random_tensor((length, batch, size), dtype, rewrite, rewrite.needs_grad[0])
    weights = [random_tensor((hidden, joined), dtype, rewrite, False) for _ in range(4)]
    biases = [random_tensor((hidden,), dtype, rewrite, False) for _ in range(4)]
    if rewrite.form != "lstm":
        biases = [torch.zeros_like(bias) for bias in biases]
    for tensor in weights:
        tensor.mul_(joined**-0.5)
    wide = torch.cat(weights)
    flat = [wide[:, :size].contiguous(), wide[:, size:].contiguous()]
    flat += [torch.cat(biases), torch.zeros_like(torch.cat(biases))]
    for tensor in (*weights, *biases, *flat):
        tensor.requires_grad_(needs_grad)
    zeros = torch.zeros(batch, hidden, dtype=given.dtype, device=given.device)

    def old() -> tuple[Any]:
        output, cell = zeros, zeros
        for moment in given.unbind():
            both = torch.cat([moment, output], 1)
            enter, forget, candidate, show = (
                torch.nn.functional.linear(both, weight, bias)
                for weight, bias in zip(weights, biases, strict=True)
            )
            cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
            output = show.sigmoid() * cell.tanh()
        return (output,)

    def new() -> tuple[Any]:
        state = zeros[None], zeros[None]
        _, output, _ = torch.lstm(given, state, flat, True, 1, 0.0, needs_grad, False, False)
        return (output[0],)

    return Forms(
        inputs=[given],
        old=old,
        new=new,
        exact=(old, new),
        weights=[*weights, *biases, *flat],
    )
