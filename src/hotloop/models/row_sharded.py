"""Read and write tensors of which each rank holds some rows.

A sharded tensor (DTensor) is cut along its first dimension: rank r has the rows after those of rank
r - 1. All other tensors are whole on every rank.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["is_sharded", "like", "local", "place", "put", "whole"]


def is_sharded(tensor: Tensor) -> bool:
    """Return whether each rank holds only some rows of a tensor."""
    module = sys.modules.get("torch.distributed.tensor")  # importing it takes 0.5 s
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Any) -> Tensor:
    """Return the rows that this rank holds, without a copy; all rows of a whole tensor."""
    mine: Tensor = tensor.to_local() if is_sharded(tensor) else tensor
    return mine


def whole(tensor: Any) -> Tensor:
    """Return all rows, gathered from the ranks; every rank must call this."""
    every: Tensor = tensor.full_tensor() if is_sharded(tensor) else tensor
    return every


def place(tensor: Any) -> tuple[int, int]:
    """Return (first row, rows) of the part that this rank holds, for one dimension or more."""
    if not is_sharded(tensor):
        return 0, tensor.shape[0]
    rows, mesh = tensor.shape[0], tensor.device_mesh
    most = -(-rows // mesh.size())  # as torch.chunk cuts; the last ranks may have none
    first = min(rows, mesh.get_local_rank() * most)
    return first, min(most, rows - first)


def put(tensor: Tensor, rows: Tensor) -> None:
    """Write this rank's rows of a tensor in place."""
    with torch.no_grad():
        local(tensor).copy_(rows)


def like(parameter: Any, rows: Tensor) -> Tensor:
    """Return a tensor of the parameter's shape, strides and sharding, from local rows."""
    mine = local(parameter)
    device = mine.device if is_sharded(parameter) else rows.device
    laid = torch.empty_like(mine, dtype=rows.dtype, device=device).copy_(rows)
    if not is_sharded(parameter):
        return laid
    sharded: Tensor = type(parameter.data).from_local(
        laid,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
    return sharded
