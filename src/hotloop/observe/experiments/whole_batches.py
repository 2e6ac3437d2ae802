"""A batch is cut at once from tensors that a data set holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from hotloop.observe.experiments.variants import NOT_REACHED, Variant
from hotloop.observe.probes.equality import equal
from hotloop.observe.whatif.without_one_cost import Patches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["WholeBatches", "vectorised"]

_COMPARED: Final = 4  # batches that are read in both ways before one is timed


class _NotIndexedError(Exception):
    """A data set takes no tensor of indices; the text says why."""


class WholeBatches(Variant):
    """The data sets that feed training are indexed once for each batch."""

    def __init__(self, loaders: Loaders, *, by_hand: bool = False) -> None:
        """With `by_hand` the loop cuts the tensors itself, by the indices of the sampler."""
        self._loaders, self._is_by_hand = loaders, by_hand
        self._patches = Patches()
        self._compares = False
        self._compared = 0
        self._why_not: str | None = None

    def prepare(self) -> str | None:
        """Compare both ways of reading on the first batches."""
        from torch.utils.data import default_collate

        training = [loader for loader, _ in self._loaders.training]
        if not training:
            return "no DataLoader was read in training"
        if any(loader.num_workers for loader in training):
            return "the samples are read in worker processes"
        if any(loader.collate_fn is not default_collate for loader in training):
            return "the script collates its batches itself"
        if any(hasattr(loader.dataset, "__getitems__") for loader in training):
            return "the data set reads whole batches already"
        if not self._compares:
            self._compares = True
            self._put(self._both)
        if self._why_not is None and self._compared < _COMPARED:
            return NOT_REACHED
        self._patches.undo()
        return self._why_not

    def switch_on(self) -> None:
        """Index once for each batch."""
        if self._is_by_hand:
            self._loaders.by_hand = _cut
        else:
            self._put(lambda fetcher, index, _: vectorised(fetcher.dataset, index))

    def switch_off(self) -> None:
        """Read sample by sample."""
        self._loaders.by_hand = None
        self._patches.undo()

    def _put(self, form: Any) -> None:
        fetcher_class: Any = sys.modules["torch"].utils.data._utils.fetch._MapDatasetFetcher
        usual = fetcher_class.fetch
        trains = [loader.dataset for loader, _ in self._loaders.training]

        def fetch(fetcher: Any, index: Any) -> Any:
            if fetcher.auto_collation and any(data is fetcher.dataset for data in trains):
                return form(fetcher, index, usual)
            return usual(fetcher, index)

        self._patches.put(fetcher_class, "fetch", fetch)

    def _both(self, fetcher: Any, index: Any, usual: Any) -> Any:
        batch = usual(fetcher, index)
        if self._why_not is None and self._compared < _COMPARED:
            try:
                is_same = equal(batch, _tried(fetcher.dataset, index))
            except _NotIndexedError as error:
                self._why_not = str(error)
            else:
                self._compared += 1
                if not is_same:
                    self._why_not = "a batch that is read at once is another"
        return batch


def _cut(iterator: Any) -> Any:
    """Return the next batch of an iterator without what a DataLoader does for it."""
    batch = vectorised(iterator._dataset, next(iterator._sampler_iter))
    iterator._num_yielded += 1
    return batch


def _tried(data: Any, index: Sequence[int]) -> Any:
    try:
        return vectorised(data, index)
    except Exception as error:  # whatever the user's data set raises
        raise _NotIndexedError(f"it cannot be indexed by a tensor ({error!r:.100})") from error


def vectorised(data: Any, indices: Sequence[int]) -> Any:
    """Return the batch that default_collate would make of these samples, by indexing only once.

    Raises any exception of the data set, if it does not support indexing with a tensor.
    """
    import torch
    from torch.utils.data import Subset

    if isinstance(data, Subset):
        return vectorised(data.dataset, [data.indices[index] for index in indices])
    return _as_collated(data[torch.as_tensor(list(indices))])


def _as_collated(batch: Any) -> Any:
    """Return the tensors in the containers that default_collate would use; raise TypeError else."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.contiguous()
    if type(batch) in (tuple, list):
        return [_as_collated(item) for item in batch]
    if type(batch) is dict:
        return {key: _as_collated(item) for key, item in batch.items()}
    raise TypeError(f"a {type(batch).__name__} is no batch of tensors")
