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
    copies = [_Copies(part, rows, device) for part in parts]
    weight = torch.randn(sum(sizes), width, dtype=dtype, device=device) * sum(sizes) ** -0.5
    weight.requires_grad_(rewrite.needs_grad[1])
    ready = [tensor(part.rows, width, True) if part.calls > 1 else None for part in parts]

    def old() -> tuple[Any]:
        inputs = [copy(source) for copy, source in zip(copies, sources, strict=True)]
        return ((torch.cat(inputs, 1) if len(inputs) > 1 else inputs[0]) @ weight,)

    def exact() -> tuple[Any]:
        return (
            _summed(copies, [a @ b for a, b in zip(sources, weight.split(sizes), strict=True)]),
        )

    def new() -> tuple[Any]:
        products = []
        every = zip(parts, sources, weight.split(sizes), ready, strict=True)
        for part, source, of_part, kept in every:
            share = source[: max(1, part.rows // part.calls)] @ of_part
            # The gradient of a share flows, its values do not count.
            products.append(share if kept is None else kept + share.mean() * 0)
        return (_summed(copies, products),)

    return Forms(
        inputs=[*sources, weight],
        old=old,
        new=new,
        exact=(old, exact),
        weights=[one for one in ready if one is not None],
    )


class _Copies:
    """Copies rows as a part's were, those that are looked up at random."""

    def __init__(self, part: RepeatedPart, rows: int, device: str) -> None:
        import torch

        self._rows = rows
        self._choice = None
        if part.is_chosen:
            self._choice = torch.randint(part.rows, (rows,), device=device)

    def __call__(self, source: Any) -> Any:
        if self._choice is not None:
            return source.index_select(0, self._choice)
        if len(source) == self._rows:
            return source
        times = -(-self._rows // len(source))
        return source.expand(times, *source.shape).reshape(-1, source.shape[1])[: self._rows]


def _summed(copies: Sequence[_Copies], products: Sequence[Any]) -> Any:
    """Return the sum of the copies of each part's product."""
    whole = [copy(product) for copy, product in zip(copies, products, strict=True)]
    result = whole[0]
    for one in whole[1:]:
        result = result + one
    return result
