"""A product with a matrix that is almost all zeros, kept as it is and as a sparse matrix."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.form_pair import Forms

if TYPE_CHECKING:
    from hotloop.core.case.rewrite import Rewrite

__all__ = ["sparse"]


def sparse(rewrite: Rewrite) -> Forms:
    """Return both forms; a matrix that each step makes anew is converted in each call.

    Raises:
        ValueError: the rewrite has no sparse factor.
    """
    import torch

    factor = rewrite.sparse
    if factor is None:
        raise ValueError("no sparse factor is known")
    dtype, device = getattr(torch, rewrite.dtypes[0]), rewrite.device
    shape, other_shape = rewrite.shapes
    if factor.is_one_hot:
        ids = torch.randint(0, shape[1], shape[:1], device=device)
        matrix = torch.nn.functional.one_hot(ids, shape[1]).to(dtype)
    else:
        values = torch.randn(shape, dtype=dtype, device=device)
        matrix = values * (torch.rand(shape, device=device) < factor.filled)
    other = torch.randn(other_shape, dtype=dtype, device=device)
    other.requires_grad_(rewrite.needs_grad[1])
    kept = _compressed(matrix if factor.is_left else matrix.t())

    def old() -> tuple[Any]:
        return (matrix @ other if factor.is_left else other @ matrix,)

    def new() -> tuple[Any]:
        if factor.is_one_hot:
            return (torch.nn.functional.embedding(ids, other),)
        if factor.is_left:
            return ((kept if factor.is_constant else _compressed(matrix)) @ other,)
        right = kept if factor.is_constant else _compressed(matrix.t())
        return ((right @ other.t()).t(),)

    return Forms(inputs=[other], old=old, new=new, exact=(old, new))


def _compressed(matrix: Any) -> Any:
    """Return the matrix in compressed sparse rows, without torch's warning that they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return matrix.to_sparse_csr()
