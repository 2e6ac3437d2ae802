"""Where the documents of a batch begin, computed once per batch on the host for all layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Boundaries", "bucket"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # tensors have no single truth
class Boundaries:
    """The segments of a batch of `rows` x `width` positions, read as one flat row.

    A segment is a document, or the padding after the documents of a row. Together they cover all
    positions; none crosses a row boundary, and none is empty. A token attends only to its segment.
    """

    cu_seqlens: Tensor  # [segments + 1] int32: where each begins, then the number of positions
    lengths: tuple[int, ...]  # [segments] positions of each, on the host
    max_seqlen: int  # positions of the longest one, rounded up to a power of two
    rows: int
    width: int  # positions of a row
    # At least the longest document of all batches for which one recording of a step is replayed.
    bound: int | None = None

    @property
    def longest(self) -> int:
        """Return the length of the longest segment, or the bound of a recording."""
        return max(self.lengths) if self.bound is None else self.bound

    def to(self, device: torch.device) -> Boundaries:
        """Return a copy with the tensor on a device; from pinned memory the host does not wait."""
        return replace(self, cu_seqlens=self.cu_seqlens.to(device, non_blocking=True))


def bucket(count: int) -> int:
    """Return a count of 1 or more rounded up to a power of two, so that few graphs are needed."""
    assert count > 0, count
    return 1 << (count - 1).bit_length()
