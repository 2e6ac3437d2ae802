"""Loads a DataLoader's batches in the loop, with the random stream and order of its workers."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

from hotloop.observe.probes.equality import marks
from hotloop.process.internal_frames import hide
from hotloop.techniques.on_scripts.sampler_epochs import EpochOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.techniques.on_scripts.sampler_epochs import Habit

__all__ = ["InLoop"]


class InLoop:
    """Starts the epochs of one loader as its workers would have done; a `session.LoaderChange`.

    The loader's options already ask for no workers; `habit` holds the script's own options. A
    message is added to `troubles` when the script changes the data set, because its persistent
    workers would have kept the old copy.
    """

    def __init__(self, habit: Habit, troubles: list[str]) -> None:
        self._habit, self._troubles = habit, troubles
        self._started, self._seen = False, None
        self._order: EpochOrder | None = None  # a persistent loader has a single iterator
        self._without_seed: tuple[weakref.ref[Any], Any] | None = None  # a loader, its generator

    def on_iterator_requested(self, loader: Any) -> None:
        """Keep a second iterator from drawing a seed; persistent workers would have none."""
        self._put_back()
        if not self._habit.persistent:
            return
        if not self._started:
            self._seen = marks(loader.dataset)
            return
        import torch

        self._without_seed = weakref.ref(loader), loader.generator
        loader.generator = torch.Generator()
        if marks(loader.dataset) != self._seen:
            self._seen = marks(loader.dataset)
            why = "the script has changed its data set"
            self._troubles.append(f"{why}, and its persistent workers would not see that")

    def on_iterator_created(self, iterator: Any) -> None:
        """Request the order and read ahead; the iterator has requested it once and drawn a seed."""
        self._put_back()
        sampler, this = iterator._index_sampler, weakref.ref(iterator)
        again = not (self._habit.persistent and self._started)
        self._started = True
        try:
            indices = iter(sampler) if again else iterator._sampler_iter
            order = EpochOrder(indices, self._habit.ahead)
        except Exception as error:  # noqa: BLE001 - the script's own, which gets it at the batch
            order = EpochOrder(iter(()), 0)
            order.fault = error
        if self._habit.persistent and self._order is not None:
            self._order.become(order)  # two loops over it share one order
            order = self._order
        self._order = order

        def next_data() -> Any:
            own: Any = this()
            order.read()
            with _one_thread():
                return type(own)._next_data(own)

        iterator._sampler_iter, iterator._next_data = order, next_data

    def _put_back(self) -> None:
        if self._without_seed is not None:
            loader, generator = self._without_seed
            if (there := loader()) is not None:
                there.generator = generator
            self._without_seed = None


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread, as workers do; more threads may sum in a different order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # setting and restoring takes 0.7 us here
    try:
        yield
    finally:
        torch.set_num_threads(threads)


hide(globals())
