"""Makes a DataLoader's iterators read batches of similar length, in its own sampler's order."""

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
    """Divides each epoch into new batches; a `session.LoaderChange`.

    `divide` takes the lengths [n] in the epoch's order and the batch size, and yields the positions
    of each batch. While some lengths are unknown, batches stay as they were, and with `learns` the
    lengths are learned from the collated samples. A message is added to `troubles` if they cannot
    be learned.
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
        """Do nothing."""

    def on_iterator_created(self, iterator: Any) -> None:
        """Replace the iterator's batch sampler and, to learn lengths, its collate function."""
        read = deque[list[int]]()  # batches that are not collated yet
        if self._learns and iterator._num_workers:
            self._learns = False
            self._troubles.append("its worker processes read the samples: no lengths are learned")
        iterator._index_sampler = _Batches(iterator._index_sampler, self._divided, read)
        iterator._sampler_iter = iter(iterator._index_sampler)
        if self._learns:
            iterator._collate_fn = _Learning(iterator._collate_fn, self._lengths, read)

    def stop(self) -> None:
        """Stop dividing the epochs that begin from now on."""
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
    """Replaces a BatchSampler; its sampler is asked, and draws, at the same times as before."""

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
    """A collate function that records the lengths of the samples it is given."""

    def __init__(self, collate: Any, lengths: SampleLengths, read: deque[list[int]]) -> None:
        self._collate, self._lengths, self._read = collate, lengths, read

    def __call__(self, samples: Any) -> Any:
        if self._read:
            for index, sample in zip(self._read.popleft(), samples, strict=False):
                self._lengths.learn(index, sample)
        return self._collate(samples)


hide(globals())
