"""A product of rows that are copies, after they are copied and before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms

if TYPE_CHECKING:
    from hotloop.core.case.rewrite import Rewrite

__all__ = ["repeated_rows"]


def repeated_rows(rewrite: Rewrite) -> Forms:
    """Return both forms, with copies that are chosen at random."""
    import torch

    dtype, device = getattr(torch, rewrite.dtypes[0]), rewrite.device
    (rows, _), (_, width) = rewrite.shapes
    sources, choices = [], []
    for part in rewrite.repeated:
        source = torch.randn(part.rows, part.columns, dtype=dtype, device=device)
        sources.append(source.requires_grad_(part.needs_grad))
        is_whole = part.rows == rows
        choices.append(None if is_whole else torch.randint(part.rows, (rows,), device=device))
    sizes = [part.columns for part in rewrite.repeated]
    weight = torch.randn(sum(sizes), width, dtype=dtype, device=device) * sum(sizes) ** -0.5
    weight.requires_grad_(rewrite.needs_grad[1])

    def copied(tensor: Any, choice: Any) -> Any:
        return tensor if choice is None else tensor.index_select(0, choice)

    def old() -> tuple[Any]:
        parts = [copied(*pair) for pair in zip(sources, choices, strict=True)]
        return ((torch.cat(parts, 1) if len(parts) > 1 else parts[0]) @ weight,)

    def new() -> tuple[Any]:
        products = [
            copied(source @ part, choice)
            for source, part, choice in zip(sources, weight.split(sizes), choices, strict=True)
        ]
        result = products[0]
        for product in products[1:]:
            result = result + product
        return (result,)

    return Forms(inputs=[*sources, weight], old=old, new=new, exact=(old, new))
