"""A product of rows that are copies, after they are copied and before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.rewrite import RepeatedPart, Rewrite

__all__ = ["repeated_rows"]


def repeated_rows(rewrite: Rewrite) -> Forms:
    """Return both forms; rows that are looked up are chosen at random.

    What several calls of a step share is multiplied by its share of the rows, and its ready result
    is read.
    """
    import torch

    dtype, device = getattr(torch, rewrite.dtypes[0]), rewrite.device
    (rows, _), (_, width) = rewrite.shapes
    parts = rewrite.repeated
    sizes = [part.columns for part in parts]

    def tensor(height: int, columns: int, needs_grad: bool) -> Any:
        made = torch.randn(height, columns, dtype=dtype, device=device)
        return made.requires_grad_(needs_grad)

    sources = [tensor(part.rows, part.columns, part.needs_grad) for part in parts]
    choices = [_choice(part, rows, device) for part in parts]
    weight = torch.randn(sum(sizes), width, dtype=dtype, device=device) * sum(sizes) ** -0.5
    weight.requires_grad_(rewrite.needs_grad[1])
    ready = [tensor(part.rows, width, True) if part.calls > 1 else None for part in parts]

    def copied(source: Any, choice: Any) -> Any:
        if len(source) == rows:
            return source
        if choice is not None:
            return source.index_select(0, choice)
        times = -(-rows // len(source))
        return source.expand(times, *source.shape).reshape(-1, source.shape[1])[:rows]

    def old() -> tuple[Any]:
        inputs = [copied(*pair) for pair in zip(sources, choices, strict=True)]
        return ((torch.cat(inputs, 1) if len(inputs) > 1 else inputs[0]) @ weight,)

    def summed(products: Sequence[Any]) -> Any:
        copies = [copied(*pair) for pair in zip(products, choices, strict=True)]
        result = copies[0]
        for copy in copies[1:]:
            result = result + copy
        return result

    def exact() -> tuple[Any]:
        return (summed([a @ b for a, b in zip(sources, weight.split(sizes), strict=True)]),)

    def new() -> tuple[Any]:
        products = []
        for part, source, of_part, kept in zip(
            parts, sources, weight.split(sizes), ready, strict=True
        ):
            if kept is None:
                products.append(source @ of_part)
                continue
            share = source[: max(1, part.rows // part.calls)] @ of_part
            products.append(kept + share.mean() * 0)  # its gradient flows, its values do not count
        return (summed(products),)

    return Forms(
        inputs=[*sources, weight],
        old=old,
        new=new,
        exact=(old, exact),
        weights=[one for one in ready if one is not None],
    )


def _choice(part: RepeatedPart, rows: int, device: str) -> Any:
    import torch

    return torch.randint(part.rows, (rows,), device=device) if part.is_chosen else None
