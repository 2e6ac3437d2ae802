"""Which rows the sampler of a loader draws in an epoch, and whether it draws them again.

The indices are seen where the loader takes them from its sampler, before any worker reads a row.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["DrawProbe"]

_BATCHES = 20_000  # whose indices are looked at
_ROWS = 200_000  # indices that are kept, of all epochs together
_FEWEST = 6  # batches of an epoch
_EPOCHS = 3  # that are compared


@dataclass(slots=True)
class _Epoch:
    """The draws of one epoch."""

    batches: list[int] = field(default_factory=list)  # a hash of each batch's indices
    rows: set[Any] = field(default_factory=set)
    last: Any = -1
    ascends: bool = True  # as a sampler does that reads row after row
    is_whole: bool = False


class DrawProbe(Probe):
    """Keeps the indices of the first epochs of each loader."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._of_iterator: weakref.WeakKeyDictionary[Any, list[_Epoch]] = (
            weakref.WeakKeyDictionary()
        )
        self._of_loader: dict[int, list[list[_Epoch]]] = {}
        self._batches = self._rows = 0

    def on_torch_imported(self) -> None:
        """Install the hook on the indices of loaders."""
        from torch.utils.data import dataloader

        hooks = self._observer.hooks
        base = dataloader._BaseDataLoaderIter

        @functools.wraps(base._next_index)
        def next_index(iterator: Any) -> Any:
            if self._batches >= _BATCHES:
                return old(iterator)
            try:
                index = old(iterator)
            except StopIteration:
                hooks.guarded(self._observer.probes.call, self, self._ended, iterator)
                raise
            hooks.guarded(self._observer.probes.call, self, self._drew, iterator, index)
            return index

        old = hooks.replace(base, "_next_index", next_index)

    def _drew(self, iterator: Any, index: Any) -> None:
        epochs = self._of_iterator.setdefault(iterator, [])
        if not epochs or epochs[-1].is_whole:
            epochs.append(_Epoch())
        if len(epochs) > _EPOCHS:
            return
        epoch, rows = epochs[-1], _rows_of(index)
        self._batches += 1
        if rows is None:
            return
        epoch.batches.append(hash(tuple(rows)))
        if self._rows >= _ROWS:
            self._batches = _BATCHES  # what follows cannot be counted
            return
        self._rows += len(rows)
        epoch.rows.update(rows)
        for row in rows if epoch.ascends else ():
            epoch.ascends = isinstance(row, int) and row > epoch.last
            epoch.last = row

    def _ended(self, iterator: Any) -> None:
        for epoch in self._of_iterator.get(iterator, [])[-1:]:
            epoch.is_whole = True

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Note which loader an iterator belongs to; workers may have drawn for it already."""
        number = next(b.number for b in self._observer.loaders if b.reference() is loader)
        epochs = self._of_iterator.setdefault(iterator, [])
        self._of_loader.setdefault(number, []).append(epochs)

    def add_to(self, case: Case) -> Case:
        """Add to each loader what its epochs draw."""
        loaders = tuple(self._with_draws(loader) for loader in case.loaders)
        return replace(case, loaders=loaders)

    def _with_draws(self, loader: Loader) -> Loader:
        epochs = [epoch for of_one in self._of_loader.get(loader.key, ()) for epoch in of_one]
        whole = [epoch for epoch in epochs[:_EPOCHS] if epoch.is_whole]
        if not whole or len(whole[0].batches) < _FEWEST:
            return loader
        drawn = len(set[Any]().union(*(epoch.rows for epoch in whole)))
        again = sum(epoch.batches == whole[0].batches for epoch in whole[1:])
        is_same = len(whole) > 1 and again == len(whole) - 1 and not whole[0].ascends
        return replace(loader, drawn=drawn, epochs_drawn=len(whole), draws_again=is_same)


def _rows_of(index: Any) -> Sequence[Any] | None:
    """Return the rows that a batch's index stands for; None if they cannot be told.

    A sampler may give a batch as a slice, a tensor or an array.
    """
    if isinstance(index, slice):
        known = index.stop is not None and index.stop >= 0 and (index.start or 0) >= 0
        return range(index.start or 0, index.stop, index.step or 1) if known else None
    if hasattr(index, "tolist"):  # of torch and numpy
        index = index.tolist()
    rows = index if isinstance(index, list | tuple) else [index]
    return rows if all(isinstance(row, Hashable) for row in rows) else None


hide(globals())
