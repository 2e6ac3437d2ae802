"""Batches, and the protocols by which a recipe's data become samples and batches."""

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
    """Host tensors that are copied to the device together, each with the batch in dim 0."""

    tensors: Mapping[str, Tensor]
    samples: int
    tokens: int  # positions the model computes, padding included
    targets: int  # positions with loss, which weight the micro batches
    boundaries: Boundaries | None = None  # of its documents; None: each row is one
    counts: bool = True  # False: a filler, because another rank has one more micro batch

    def beside(self, device: torch.device) -> dict[str, Any]:
        """Return the arguments of a text model besides the tensors; {} if it needs none.

        "boundaries" with their tensor on the device; for token labels "targets", the number of
        positions with loss, which then need not be read from the device.
        """
        more: dict[str, Any] = {}
        if self.boundaries is not None:
            more["boundaries"] = self.boundaries.to(device)
        if "labels" in self.tensors:
            more["targets"] = self.targets
        return more


class PreparedData(Protocol):
    """The data that a recipe has prepared, ready to be cut into samples."""

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of everything that determines the tokens."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Return the entry of run.json, which includes "fingerprint"."""

    @property
    def notes(self) -> Sequence[str]:
        """Return remarks on the preparation that a user should know."""


class Samples(Protocol):
    """A data set whose order is a pure function of (seed, epoch, index)."""

    fingerprint: str  # of everything that determines a sample
    in_memory: bool  # whether a batch is cut from memory: then worker processes do not help

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return ids that distinguish these samples, [count]; the run log keeps their digest."""

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return samples first..first+count-1 of the epoch's order; no shared state is used."""


class MicroBatchCut(Protocol):
    """Divides a run of samples into micro batches."""

    def __call__(
        self, samples: Any, epoch: int, first: int, count: int, micro_batch: int
    ) -> list[tuple[int, int]]:
        """Return (first sample, count) of each, in order; memory allows `micro_batch` samples."""


def evenly(
    samples: Samples, epoch: int, first: int, count: int, micro_batch: int
) -> list[tuple[int, int]]:
    """Cut every `micro_batch` samples."""
    del samples, epoch
    end = first + count
    return [(start, min(micro_batch, end - start)) for start in range(first, end, micro_batch)]
