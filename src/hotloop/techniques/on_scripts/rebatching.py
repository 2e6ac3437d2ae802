"""Has a DataLoader's iterators read batches of like length, from the order of its own sampler."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.observe.probes.lengths import SampleLengths

__all__ = ["Rebatched"]


class Rebatched:
    """Divides each epoch anew; a `session.LoaderChange`.

    `divide` yields the places of each batch for the lengths of an epoch in its order. Where not all
    lengths are known, batches are what they were, and with `learns` they are learned from what is
    collated. `troubles` is told when nothing can be learned.
    """

    def __init__(
        self,
        lengths: SampleLengths,
        divide: Callable[[NDArray[np.int32], int], Iterator[NDArray[np.int64]]],
        *,
        learns: bool = False,
        troubles: list[str] | None = None,
    ) -> None:
        self._lengths, self._divide = lengths, divide
        self._learns, self._stopped = learns, False
        self._troubles = [] if troubles is None else troubles

    def on_iterator_requested(self, loader: Any) -> None:
        """Nothing is to go before an epoch."""

    def on_iterator_created(self, iterator: Any) -> None:
        """Take the place of the sampler of batches, and stand behind the collate function."""
        read = deque[list[int]]()  # batches that are not collated yet
        if self._learns and iterator._num_workers:
            self._learns = False
            self._troubles.append("its worker processes read the samples: no lengths are learned")
        iterator._index_sampler = _Batches(iterator._index_sampler, self._divided, read)
        iterator._sampler_iter = iter(iterator._index_sampler)
        if self._learns:
            iterator._collate_fn = _Learning(iterator._collate_fn, self._lengths, read)

    def stop(self) -> None:
        """Leave the epochs that begin from now on as they are."""
        self._stopped = True

    def _divided(
        self, indices: list[int], plain: Any, read: deque[list[int]]
    ) -> Iterator[list[int]]:
        """Yield the batches of an epoch as lists of indices."""
        read.clear()
        rows = plain.batch_size
        lengths = None if self._stopped else self._lengths.of(indices)
        if plain.drop_last:
            indices = indices[: len(indices) // rows * rows]
        if lengths is not None:
            for places in self._divide(lengths[: len(indices)], rows):
                yield [indices[place] for place in places]
            return
        for first in range(0, len(indices), rows):
            batch = indices[first : first + rows]
            if self._learns:
                read.append(batch)
            yield batch


class _Batches:
    """Stands in for a BatchSampler. Its sampler is asked, and draws, when it was before."""

    def __init__(
        self, plain: Any, divided: Callable[..., Iterator[list[int]]], read: deque[list[int]]
    ) -> None:
        self._plain, self._divided, self._read = plain, divided, read

    def __iter__(self) -> Iterator[list[int]]:
        order = iter(self._plain.sampler)
        indices = list(itertools.islice(order, len(self._plain.sampler)))
        yield from self._divided(indices, self._plain, self._read)
        next(order, None)  # at an epoch's end a sampler may draw once more, or count epochs

    def __len__(self) -> int:
        return len(self._plain)


class _Learning:
    """A collate function that notes the lengths of the samples it is given."""

    def __init__(self, collate: Any, lengths: SampleLengths, read: deque[list[int]]) -> None:
        self._collate, self._lengths, self._read = collate, lengths, read

    def __call__(self, samples: Any) -> Any:
        if self._read:
            for index, sample in zip(self._read.popleft(), samples, strict=False):
                self._lengths.learn(index, sample)
        return self._collate(samples)


hide(globals())
