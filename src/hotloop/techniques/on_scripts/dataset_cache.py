"""Replaces the data set inside one DataLoader iterator: cached, or read one batch at a time.

The script's data set itself is not modified. The replacements are never pickled, because loaders
whose workers would receive them that way are left unchanged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.whole_batches import vectorised
from hotloop.observe.probes.equality import copied, equal, lent, marks, tensors
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Sequence

_Kept = tuple[Any, tuple[Any, ...], bool]  # a sample, its tensors, whether it can be lent as it is

__all__ = ["CachedReads", "SampleCache", "VectorisedReads"]

# Cache hits that are read again and compared: the first few of an epoch, then every nth one. The
# first epoch from memory has its own pair. A read may cost as much time as a hundred steps.
CHECKED_FIRST, CHECKED_EVERY = 8, 128
LATER_FIRST, LATER_EVERY = 1, 1024
_OUT = 8  # batches handed out that the loop may still change


class SampleCache:
    """Caches samples of one data set by index, up to a limit of `limit` bytes.

    At first, samples are copied, and the copies handed out are compared with the cache a few
    batches later. If the loop changed none of them for a whole epoch, the cached tensors themselves
    are lent from then on, because a copy takes longer than many loops need to make a batch. If a
    lent tensor is changed later, its version counter shows it: the sample is read anew, and lending
    ends.
    """

    def __init__(self, limit: int, troubles: list[str]) -> None:
        self.limit, self.used, self.hits = limit, 0, 0  # bytes, bytes, reads
        self.is_off, self._troubles = False, troubles
        self._samples: dict[int, _Kept] = {}
        self._data: Any = None
        self._state: Any = None
        self._batches = 0  # since nothing was cached
        self._since = 0  # hits of this epoch
        self._checked = CHECKED_FIRST, CHECKED_EVERY
        self._lends: bool | None = None  # None: not known yet whether the loop changes samples
        self._out: deque[list[tuple[Any, Any]]] = deque()  # by batch: tensors given, and kept

    def begin(self, data: Any) -> None:
        """Start an epoch; drop the cached samples if the data set has changed."""
        if self._since >= len(self._samples) > 0:  # an epoch from memory
            self._checked = LATER_FIRST, LATER_EVERY
            self._look(0)
            self._lends = self._lends is not False
        self._out.clear()
        state = marks(data)
        if state != self._state:
            if self._samples:
                self._troubles.append("the data set had changed, so its samples were read anew")
            self._samples.clear()
            self.used, self._checked = 0, (CHECKED_FIRST, CHECKED_EVERY)
            self._batches = 0
        self._data, self._state, self._since = data, state, 0

    def batch(self) -> None:
        """Note that a batch is about to be read; compare older batches, which the loop has used.

        The first use of a data set may change it, such as a tokenizer that notes that it has warned
        once. So what the first batch left is what later epochs are compared with.
        """
        self._batches += 1
        if self._batches == 2 and (state := marks(self._data)) != self._state:
            self._samples.clear()
            self.used, self._state = 0, state
        if self._lends is None:
            self._look(_OUT)
            self._out.append([])

    def read(self, data: Any, index: Any) -> Any:
        """Return data[index], from the cache if it is there."""
        if type(index) is not int:
            return data[index]
        cached = self._samples.get(index)
        if cached is None:
            return data[index] if self.is_off else self._keep(index, data[index])
        sample, held, is_frozen = cached
        self.hits += 1
        self._since += 1
        if self._lends and _is_changed(held):
            return self._changed(data, index)
        first, every = self._checked
        if self._since <= first or not self._since % every:
            now = data[index]
            if not equal(now, sample):
                self._turn_off(f"sample {index} was another one when it was read again")
            return now
        if self._lends:
            return sample if is_frozen else lent(sample)
        copy = copied(sample)
        if self._out:
            self._out[-1].append((tensors(copy), held))
        return copy

    def read_all(self, data: Any, indices: Sequence[Any]) -> list[Any]:
        """Return data[index] for each index; in one pass if all of them can be lent."""
        first, every = self._checked
        after = self._since + len(indices)
        is_due = self._since < first or self._since // every != after // every
        if self._lends and not is_due and all(type(index) is int for index in indices):
            cached = [self._samples.get(index) for index in indices]
            # One expression each, because this runs for every sample that is read.
            if None not in cached and not any(_is_changed(held) for _, held, _ in cached):  # type: ignore[misc]
                self.hits, self._since = self.hits + len(cached), after
                return [s if frozen else lent(s) for s, _, frozen in cached]  # type: ignore[misc]
        return [self.read(data, index) for index in indices]

    def _look(self, left: int) -> None:
        """Compare the copies handed out with the cache, until `left` batches remain uncompared."""
        while len(self._out) > left:
            for given, held in self._out.popleft():
                if any(tensor.requires_grad for tensor in given) or not equal(given, held):
                    self._lends = False
                    self._out.clear()
                    return

    def _changed(self, data: Any, index: int) -> Any:
        """Drop the lent samples that the loop changed, stop lending, and read this one anew."""
        self._lends = False
        for at in [at for at, (_, held, _) in self._samples.items() if _is_changed(held)]:
            del self._samples[at]
        return self._keep(index, data[index])

    def _keep(self, index: int, sample: Any) -> Any:
        from hotloop.observe.hooks.describe import nbytes

        self.used += nbytes(sample) + 512  # bytes; 512 for Python's own objects, about
        if self.used > self.limit:
            self._turn_off(f"its samples do not fit into {self.limit / 1e9:.1f} GB")
        else:
            own = copied(sample)
            self._samples[index] = own, tensors(own), _is_frozen(own)
            if any(tensor.is_inference() for tensor in tensors(own)):
                self._lends = False  # such tensors have no version
        return sample

    def _turn_off(self, why: str) -> None:
        self.is_off = True
        self._troubles.append(f"it was ended: {why}")
        self._samples.clear()
        self._out.clear()


def _is_frozen(sample: Any) -> bool:
    """Whether a sample has no mutable containers, so that it may be lent as it is."""
    if type(sample) is tuple:
        return all(map(_is_frozen, sample))
    return isinstance(sample, int | float | str | bytes) or type(sample).__name__ == "Tensor"


def _is_changed(held: tuple[Any, ...]) -> bool:
    for tensor in held:  # noqa: SIM110 (done for every sample that is read)
        if tensor._version or tensor.requires_grad:
            return True
    return False


class CachedReads:
    """A data set that returns its samples through a SampleCache."""

    def __init__(self, data: Any, cache: SampleCache) -> None:
        self._data, self._cache = data, cache

    def __getitem__(self, index: Any) -> Any:
        self._cache.batch()
        return self._cache.read(self._data, index)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:  # the name torch's fetcher calls
        self._cache.batch()
        return self._cache.read_all(self._data, indices)

    def __len__(self) -> int:
        return len(self._data)


class VectorisedReads:
    """A data set that returns a whole collated batch for a list of indices."""

    def __init__(self, data: Any, collate: Any) -> None:
        self._data, self._collate = data, collate
        self._first = True

    def __getitems__(self, indices: Sequence[int]) -> Any:  # the name that torch's fetcher calls
        if self._first:  # the first batch of an epoch is read as in the script
            self._first = False
            return self._collate([self._data[index] for index in indices])
        return vectorised(self._data, indices)

    def __getitem__(self, index: Any) -> Any:
        return self._data[index]

    def __len__(self) -> int:
        return len(self._data)


hide(globals())
