"""Gives a DataLoader worker processes, with the random stream and the order it had without them.

Three things make PyTorch's own workers another training run (measured, shared design RULES): a
persistent iterator draws no base seed at its second epoch, a new one asks a sampler for its order
twice, and the order is read ahead of the first batch. Here each epoch asks once, draws once, and
begins to read at the first batch.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from hotloop.probe.equal import marks

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Workers"]


class _Given:
    """An order that was asked for already, in the place of the sampler it came from."""

    def __init__(self, order: Iterator[Any], sampler: Any) -> None:
        self._order, self._sampler = order, sampler

    def __iter__(self) -> Iterator[Any]:
        return self._order

    def __len__(self) -> int:
        return len(self._sampler)


class _Holder:
    _iterator: Any = None


_holder = _Holder()
_holder._iterator = _Holder()
_ALONE = sys.getrefcount(_holder._iterator)  # of what only an attribute holds


class Workers:
    """Persistent workers of one loader; a `session.Feed`."""

    def __init__(self, loader: Any, *, count: int, ahead: int, pin: bool) -> None:
        loader.num_workers, loader.prefetch_factor = count, ahead
        loader.pin_memory = loader.pin_memory or pin
        # DataLoader forbids to set it later, for it would not restart what runs: nothing does yet.
        loader.__dict__["persistent_workers"] = True
        self._seen: Any = None  # of the data set, when the workers copied it

    def asked(self, loader: Any) -> None:
        """Let go of workers that hold an old data set, or whose epoch is still being read."""
        if loader._iterator is None:
            return
        running = sys.getrefcount(loader._iterator) > _ALONE and _is_unfinished(loader._iterator)
        if running:  # two loops over one loader: each has its own iterator, as without workers
            loader._iterator = None
        elif self._seen != self._state(loader):
            loader._iterator._shutdown_workers()
            loader._iterator = None

    def built(self, iterator: Any) -> None:
        """Take over the starts of epochs; the workers have not been started."""
        sampler, this = iterator._index_sampler, weakref.ref(iterator)

        def reset(loader: Any, first_iter: bool = False) -> None:
            own: Any = this()
            if not first_iter:
                import torch

                order = iter(sampler)
                torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
                _hold(own, order, sampler)
            else:
                self._seen = self._state(loader)
            type(own)._reset(own, loader, first_iter)

        _hold(iterator, iterator._sampler_iter, sampler)
        iterator._reset = reset

    @staticmethod
    def _state(loader: Any) -> Any:
        return marks(loader.dataset), id(loader.collate_fn), id(loader.worker_init_fn)


def _is_unfinished(iterator: Any) -> bool:
    return "_next_data" in iterator.__dict__ or iterator._rcvd_idx < iterator._send_idx


def _hold(iterator: Any, order: Iterator[Any], sampler: Any) -> None:
    """Have the iterator read nothing, not even the order, before it is asked for a batch."""
    this = weakref.ref(iterator)

    def first() -> Any:
        own: Any = this()
        del own._next_data, own._try_put_index
        own._index_sampler = sampler
        for _ in range(own._prefetch_factor * own._num_workers):
            own._try_put_index()
        return own._next_data()

    iterator._index_sampler = _Given(order, sampler)
    iterator._try_put_index = _nothing
    iterator._next_data = first


def _nothing() -> None:
    pass
