"""Batches, and how a recipe's data become samples and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from hotloop.core.document_boundaries import Boundaries

__all__ = ["Batch", "MicroBatchCut", "PreparedData", "Samples", "evenly"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Host tensors that go to the device together, batch in dim 0 of each."""

    tensors: Mapping[str, Tensor]
    samples: int
    tokens: int  # positions the model computes, padding included
    targets: int  # positions that carry loss; micro batches are weighed by this
    boundaries: Boundaries | None = None  # of its documents; None: each row is one
    counts: bool = True  # False: another rank has a micro batch more, and this one keeps step

    def beside(self, device: torch.device) -> dict[str, Any]:
        """Return what a model of texts is given beside the tensors; nothing where it needs none.

        "boundaries" with their tensor on the device; of token labels "targets", how many of them
        carry loss, so that nobody has to ask a device for it.
        """
        more: dict[str, Any] = {}
        if self.boundaries is not None:
            more["boundaries"] = self.boundaries.to(device)
        if "labels" in self.tensors:
            more["targets"] = self.targets
        return more


class PreparedData(Protocol):
    """What a recipe made of its data, ready to be cut into samples."""

    @property
    def fingerprint(self) -> str:
        """Of everything that decides what the tokens are."""
        ...

    @property
    def about(self) -> Mapping[str, Any]:
        """What run.json says of them; "fingerprint" is in it."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What happened on the way that one should know."""
        ...


class Samples(Protocol):
    """A data set whose order is a pure function of (seed, epoch, index)."""

    fingerprint: str  # of everything that decides what a sample is
    in_memory: bool  # whether a batch is cut from memory: then no other process makes it sooner

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""
        ...

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return what tells those samples apart, [count]; the run log keeps its digest."""
        ...

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return samples first..first+count-1 of the epoch's order; no shared state is used."""
        ...


class MicroBatchCut(Protocol):
    """Divides a run of samples into micro batches."""

    def __call__(
        self, samples: Any, epoch: int, first: int, count: int, micro_batch: int
    ) -> list[tuple[int, int]]:
        """Return (first sample, count) of each, in order; `micro_batch` is what memory allows."""
        ...


def evenly(
    samples: Samples, epoch: int, first: int, count: int, micro_batch: int
) -> list[tuple[int, int]]:
    """Cut every `micro_batch` samples."""
    del samples, epoch
    end = first + count
    return [(start, min(micro_batch, end - start)) for start in range(first, end, micro_batch)]
