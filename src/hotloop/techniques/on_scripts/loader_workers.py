"""Gives a DataLoader worker processes, with the random stream and the order it had before.

PyTorch's own workers change a training run in three ways, compared with no workers or with
non-persistent ones (measured, shared design RULES): a persistent iterator draws no base seed at its
second epoch, a new one requests the sampler's order twice, and the order is read ahead of the first
batch. Here each epoch requests, draws and reads ahead as the script's own loader would
(sampler_epochs.py).
"""

from __future__ import annotations

import sys
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hotloop.observe.probes.equality import marks
from hotloop.process.internal_frames import hide
from hotloop.techniques.on_scripts.sampler_epochs import EpochOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.techniques.on_scripts.sampler_epochs import Habit

__all__ = ["PersistentWorkers"]


class _Given:
    """A sampler replacement that returns an order which was requested already."""

    def __init__(self, order: Iterator[Any], sampler: Any) -> None:
        self._order, self._sampler = order, sampler

    def __iter__(self) -> Iterator[Any]:
        return self._order

    def __len__(self) -> int:
        return len(self._sampler)


_holder = SimpleNamespace(_iterator=SimpleNamespace())
_ALONE = sys.getrefcount(_holder._iterator)  # references to an object that only an attribute holds


class PersistentWorkers:
    """Keeps the workers of one loader from epoch to epoch; a `session.LoaderChange`.

    The loader's options already ask for persistent workers; `habit` holds the script's own options.
    """

    def __init__(self, habit: Habit) -> None:
        self._habit = habit
        self._seen: Any = None  # the state of the loader when the workers copied the data set

    def on_iterator_requested(self, loader: Any) -> None:
        """Drop workers that hold an old copy of the data set, or whose epoch is still running."""
        if loader._iterator is None or self._habit.persistent:  # the script's own do so too
            return
        running = sys.getrefcount(loader._iterator) > _ALONE and _is_unfinished(loader._iterator)
        if running:  # two loops over one loader: each keeps its own iterator, as before
            loader._iterator = None
        elif self._seen != self._state(loader):
            loader._iterator._shutdown_workers()
            loader._iterator = None

    def on_iterator_created(self, iterator: Any) -> None:
        """Replace the iterator's reset, which starts epochs; no worker has been started yet."""
        sampler, this = iterator._index_sampler, weakref.ref(iterator)
        asks_twice, is_lazy = self._habit.workers > 0, self._habit.workers == 0

        def reset(loader: Any, first_iter: bool = False) -> None:
            own: Any = this()
            order = own._sampler_iter if first_iter else iter(sampler)
            if first_iter:
                self._seen = self._state(loader)
            elif not self._habit.persistent:
                _draw_seed(loader)
            if asks_twice and (first_iter or not self._habit.persistent):
                order = iter(sampler)
            start = _hold if is_lazy else self._read_ahead
            start(own, loader, first_iter, order, sampler)

        iterator._reset = reset

    def _read_ahead(
        self, own: Any, loader: Any, first_iter: bool, order: Iterator[Any], sampler: Any
    ) -> None:
        """Start reading at once, with indices read as far ahead as by the script's own workers."""
        under_way = own._prefetch_factor * own._num_workers
        read, this = EpochOrder(order, max(under_way, self._habit.ahead)), weakref.ref(own)

        def put() -> None:
            own: Any = this()
            read.read()
            type(own)._try_put_index(own)

        own.__dict__.pop("_try_put_index", None)
        own._index_sampler = _Given(read, sampler)
        type(own)._reset(own, loader, first_iter)
        own._try_put_index = put  # from the first batch on, one index list per batch

    @staticmethod
    def _state(loader: Any) -> Any:
        return marks(loader.dataset), id(loader.collate_fn), id(loader.worker_init_fn)


def _draw_seed(loader: Any) -> None:
    """Draw the base seed that a new iterator draws for its workers."""
    import torch

    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


def _is_unfinished(iterator: Any) -> bool:
    ahead = iterator.__dict__.get("_hotloop_ahead")  # a batch that the loop has not received
    under_way = iterator._rcvd_idx < iterator._send_idx
    return "_next_data" in iterator.__dict__ or under_way or (ahead is not None and ahead.holds)


def _hold(own: Any, loader: Any, first_iter: bool, order: Iterator[Any], sampler: Any) -> None:
    """Keep the iterator from reading anything, even the order, before a batch is requested."""
    this = weakref.ref(own)

    def first() -> Any:
        own: Any = this()
        del own._next_data, own._try_put_index
        own._index_sampler = sampler
        for _ in range(own._prefetch_factor * own._num_workers):
            own._try_put_index()
        return own._next_data()

    own._index_sampler = _Given(order, sampler)
    own._try_put_index = _nothing
    own._next_data = first
    type(own)._reset(own, loader, first_iter)


def _nothing() -> None:
    pass


hide(globals())
