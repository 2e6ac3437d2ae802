"""Finds the padding of batches without an attention mask, by what the model's embedding declares.

`torch.nn.Embedding(..., padding_idx=0)` says that the id 0 is padding: it has no gradient there.
https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html (2026-11)
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor

__all__ = ["declared_paddings", "entries_of", "rebuilt", "token_mask"]


def declared_paddings() -> set[tuple[int, int]]:
    """Return (id of the padding, number of ids) of each embedding of this process that has one."""
    from torch.nn import Embedding

    # By type(): an object may answer isinstance with code of its own.
    found = [each for each in gc.get_objects() if issubclass(type(each), Embedding)]
    return {(one.padding_idx, one.num_embeddings) for one in found if one.padding_idx is not None}


def entries_of(batch: Any) -> Mapping[Any, Any] | None:
    """Return the entries of a batch by name or by place; None if it has another form."""
    import torch

    if hasattr(batch, "items") and hasattr(batch, "get"):
        return batch  # type: ignore[no-any-return]
    if isinstance(batch, torch.Tensor):
        return {0: batch}
    return dict(enumerate(batch)) if isinstance(batch, list | tuple) else None


def rebuilt(batch: Any, entries: Mapping[Any, Any]) -> Any:
    """Return a batch of the form of `batch` with new entries."""
    import torch

    if isinstance(batch, torch.Tensor):
        return entries[0]
    if isinstance(batch, list | tuple):
        values = list(entries.values())
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return dict(entries) if type(batch) is dict else type(batch)(entries)


def token_mask(
    entries: Mapping[Any, Any], paddings: Collection[tuple[int, int]], *, least: int
) -> tuple[Any, Tensor] | None:
    """Return the name of the ids [B, T], and where they are not padding.

    None if no entry of more than `least` columns can be ids of an embedding with a padding, or if
    it is open which one, or which id is the padding.
    """
    import torch

    found = []
    for name, value in entries.items():
        if not isinstance(value, torch.Tensor) or value.dim() != 2 or not value.numel():
            continue
        if value.dtype not in (torch.int64, torch.int32) or value.shape[1] <= least:
            continue
        low, high = int(value.min()), int(value.max())
        ids = {id for id, size in paddings if low >= 0 and high < size}
        found += [(name, value != id) for id in ids]
    return found[0] if len(found) == 1 else None


hide(globals())
