"""Make Samples of a map-style data set; order, batches and random draws depend on position only."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from hotloop.core.errors import DataError
from hotloop.data.sampling.epoch_order import permutation, seed_of
from hotloop.session.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["MapStyle", "Mapped"]


class MapStyle(Protocol):
    """A map-style data set, as torch calls it."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, index: int, /) -> Mapping[str, Tensor]:
        """Return one sample: tensors by name, without a batch dimension."""
        ...


class Mapped:
    """Samples of a map-style data set, each once in an epoch.

    While a sample is read, the generators of torch, numpy and random are seeded by (seed, epoch,
    index): augmentation is the same in any process, in any order and after a resume. `collate`
    makes a batch of samples (by default it stacks them, which needs equal shapes), and `targets`
    counts the positions of a batch that carry loss (by default its samples).
    """

    in_memory = False

    def __init__(
        self,
        dataset: MapStyle,
        *,
        fingerprint: str,
        seed: int,
        shuffle: bool,
        collate: Callable[[Sequence[Mapping[str, Tensor]]], Mapping[str, Tensor]] | None = None,
        targets: Callable[[Mapping[str, Tensor]], int] | None = None,
    ) -> None:
        self.fingerprint = (
            f"map-style {fingerprint}, {f'shuffled by seed {seed}' if shuffle else 'in order'}"
        )
        self._dataset, self._seed, self._shuffle = dataset, seed, shuffle
        self._collate, self._targets = collate or _stack, targets
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""
        return len(self._dataset)

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the indices of samples first..first+count-1 of the epoch's order, [count]."""
        n = len(self._dataset)
        if not 0 <= first <= first + count <= n:
            raise IndexError(f"samples {first}..{first + count - 1} asked for, an epoch has {n}")
        if not self._shuffle:
            return np.arange(first, first + count, dtype=np.int64)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, permutation(self._seed, epoch, n)
        return self._order[1][first : first + count]

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return the samples at those positions; DataError names one that cannot be read."""
        indices = self.ids(epoch, first, count).tolist()
        with _generators_kept():
            tensors = self._collate([self._read(epoch, index) for index in indices])
        tokens = max((t.shape[0] * t.shape[1] for t in tensors.values() if t.dim() > 1), default=0)
        targets = count if self._targets is None else self._targets(tensors)
        return Batch(tensors=tensors, samples=count, tokens=tokens or count, targets=targets)

    def _read(self, epoch: int, index: int) -> Mapping[str, Tensor]:
        seed = seed_of(self._seed, epoch, index)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the GPU too
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        try:
            return self._dataset[index]
        except Exception as error:
            raise DataError(
                f"sample {index} of {type(self._dataset).__name__} cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Restore the host's generators at the end, because the training draws from them too."""
    state, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        random.setstate(python)
        np.random.set_state(numpy)


def _stack(samples: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}
