"""Finds the DataLoaders a training loop reads; replays their first batches, or times them alone.

A loader feeds training if a batch was requested with gradients on and a backward pass followed.
Hand-made batches are not seen here.
"""

from __future__ import annotations

import copy
import time
import weakref
from collections import deque
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from hotloop.machine.own_clock import own_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from hotloop.observe.whatif.without_one_cost import Patches

__all__ = ["Loaders", "Slot", "alone", "rebuilt"]

KEPT = 4  # batches
_SHORT = 32  # batches of an epoch that may be read without the workers that it would start
RECENT = 16  # batches that are kept while replaying is switched on and off


class Loaders:
    """Patches every DataLoader; with `replay`, those that feed training serve from memory.

    With `switched`, `replay` may be set and reset between steps: the batches served are the latest
    ones, as they were handed out.
    """

    def __init__(self, patches: Patches, *, replay: bool = False, switched: bool = False) -> None:
        from torch.utils.data import dataloader

        self._sources: list[tuple[weakref.ref[Any], _Source]] = []
        self._iterators: list[weakref.ref[Any]] = []  # those with worker processes
        self._since_backward: set[_Source] = set()  # read since the last backward pass
        self.replay, self._switched = replay, switched
        self.one_batch = False  # the latest one is replayed alone
        self.keeps_pristine = False  # copies of it, as the script may change what it gets
        self.by_hand: Callable[[Any], Any] | None = None  # makes an iterator's next batch itself
        self.starts_workers = True  # else a short epoch has none, until its end
        self._without: list[weakref.ref[Any]] = []  # iterators that have none
        self._foreign = 0
        self.waited = 0.0  # seconds for batches, with gradients on
        self.rows: int | None = None  # of the latest batch
        self.read = 0  # batches of all loaders
        self._patch(patches, dataloader)

    @property
    def training(self) -> list[tuple[Any, float]]:
        """Return the loaders that feed training, and the batches per step of each."""
        living = [(loader(), source) for loader, source in self._sources if source.trains]
        return [
            (loader, source.batches / max(1, source.steps))
            for loader, source in living
            if loader is not None
        ]

    @property
    def stock(self) -> dict[int, int]:
        """Return how many batches of training lie ready, by the id() of a loader's iterator.

        While an epoch that began without workers goes on with them, no two calls agree.
        """
        self._iterators = [one for one in self._iterators if one() is not None]
        living = [iterator for one in self._iterators if (iterator := one()) is not None]
        trains = [
            iterator
            for iterator in living
            if iterator._hotloop_source.trains and hasattr(iterator, "_data_queue")
        ]
        ready = {id(iterator): _ready(iterator) for iterator in trains}
        self._without = [one for one in self._without if one() is not None]
        if self._without and self.starts_workers:  # an epoch goes on without: no block is steady
            self._foreign += RECENT
            ready[0] = self._foreign
        return ready

    @property
    def replayed(self) -> int:
        """Return how many batches came from memory."""
        return sum(source.served for _, source in self._sources)

    def backward(self) -> None:
        """Note that the batches since the last call were trained on."""
        for source in self._since_backward:
            source.trains = True
        self._since_backward.clear()

    def step(self) -> None:
        """Note the end of a training step."""
        for _, source in self._sources:
            source.end_step()

    def _note(self, batch: Any) -> None:
        self.rows, self.read = _rows(batch), self.read + 1

    def _source(self, loader: Any) -> _Source:
        """Return the source of a loader, or that of the freed loader that it replaces.

        A script may build its loader anew for each epoch, with the same properties.
        """
        loader = getattr(loader, "_hotloop_original", loader)
        for reference, source in self._sources:
            if reference() is loader:
                return source
        like = _likeness(loader)
        for index, (reference, source) in enumerate(self._sources):
            if reference() is None and source.like == like:
                self._sources[index] = weakref.ref(loader), source
                return source
        self._sources.append((weakref.ref(loader), _Source(like, switched=self._switched)))
        return self._sources[-1][1]

    def _timed(self, call: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function, and count its seconds as waiting if gradients are on."""
        import torch

        began = own_time()
        try:
            return call(argument)
        finally:
            if torch.is_grad_enabled():
                self.waited += own_time() - began

    def _patch(self, patches: Patches, dataloader: Any) -> None:
        import torch

        base = dataloader._BaseDataLoaderIter
        init, ask, iterate = base.__init__, base.__next__, dataloader.DataLoader.__iter__

        def __init__(iterator: Any, loader: Any) -> None:  # noqa: N807 - replaces it
            init(iterator, loader)
            iterator._hotloop_loader = loader  # `for batch in DataLoader(…)` holds no reference
            iterator._hotloop_source = self._source(loader)
            if loader.num_workers > 0:  # its queue comes after this call
                self._iterators.append(weakref.ref(iterator))
            if hasattr(loader, "_hotloop_original"):
                self._without.append(weakref.ref(iterator))

        def __next__(iterator: Any) -> Any:  # noqa: N807
            source = iterator._hotloop_source
            if torch.is_grad_enabled():
                self._since_backward.add(source)
            if source.is_ready and self.replay:
                position = iterator._num_yielded
                batch = source.serve(iterator._hotloop_loader, position, again=self.one_batch)
                self._note(batch)
                iterator._num_yielded += 1
                return batch
            make = self.by_hand if source.trains and self.by_hand is not None else ask
            try:
                batch = self._timed(make, iterator)
            except StopIteration:
                # What the workers had read ahead comes at last.
                if make is ask or not getattr(iterator, "_task_info", None):
                    source.ended(iterator._num_yielded)
                    raise
                batch = self._timed(ask, iterator)
            self._note(batch)
            source.take(batch, keep=self.replay or self._switched)
            if self.keeps_pristine:
                source.pristine = rebuilt(batch, _cloned)
            return batch

        def __iter__(loader: Any) -> Iterator[Any]:  # noqa: N807
            source = self._source(loader)
            if source.is_ready and self.replay:  # no workers are started for nothing
                return _Replayed(self, loader, source, start)
            if not self.starts_workers and source.trains and _length(loader) <= _SHORT:
                loader = _without_workers(loader)
            return start(loader)  # type: ignore[no-any-return]

        def start(loader: Any) -> Any:
            return self._timed(iterate, loader)

        patches.put(base, "__init__", __init__)
        patches.put(base, "__next__", __next__)
        patches.put(dataloader.DataLoader, "__iter__", __iter__)


def _ready(iterator: Any) -> int:
    """Return how many batches lie ready: in the queue, and those that came before their turn."""
    try:
        queued = int(iterator._data_queue.qsize())
    except NotImplementedError:  # macOS
        return 0
    return queued + sum(len(task) > 1 for task in iterator._task_info.values())


class _Source:
    """The facts of one loader, and its kept batches."""

    def __init__(self, like: object, *, switched: bool = False) -> None:
        self.like, self.trains = like, False
        self._recent: deque[Any] | None = deque(maxlen=RECENT) if switched else None
        self.batches = self.steps = self.served = 0
        self._since_step = 0
        self.pristine: Any = None  # a copy of the latest batch
        self._slots: list[Slot] = []
        self._length: float | None = None  # of an epoch that was read to its end

    @property
    def is_ready(self) -> bool:
        """Whether it can be replayed: enough batches are kept, or a whole epoch."""
        kept = self._slots if self._recent is None else self._recent
        whole = self._length is not None and bool(kept)
        return self.trains and (whole or len(kept) >= KEPT)

    def take(self, batch: Any, *, keep: bool) -> None:
        """Record a batch that was read from the loader."""
        self._since_step += 1
        if self._recent is not None:
            self._recent.append(batch)
        elif keep and len(self._slots) < KEPT:
            self._slots.append(Slot(batch))

    def end_step(self) -> None:
        """Count the step and its batches; steps without this loader do not count."""
        if self._since_step:
            self.batches, self.steps = self.batches + self._since_step, self.steps + 1
        self._since_step = 0

    def ended(self, batches: int) -> None:
        """Note the end of an epoch that was read."""
        self._length = batches

    def serve(self, loader: Any, position: int, *, again: bool = False) -> Any:
        """Return a kept batch, or raise StopIteration where the epoch would end.

        With `again` it is that of the last call.
        An iterable data set of unknown length does not end.
        """
        if self._length is None:
            self._length = _length(loader)
        if position >= self._length:
            raise StopIteration
        self.served += 1
        if self._recent is not None:
            if again and self.pristine is not None:
                return rebuilt(self.pristine, _cloned)
            self._recent.rotate(-1)
            return rebuilt(self._recent[-1], lambda tensor: tensor)
        return self._slots[position % len(self._slots)].hand_out()


class Slot:
    """One kept batch, or another value that is handed out again."""

    def __init__(self, batch: Any) -> None:
        self._pristine = rebuilt(batch, _cloned)
        self._handed: list[tuple[torch.Tensor, int]] | None = None
        self._copy = rebuilt(self._pristine, _cloned)
        self._is_changed = False

    def hand_out(self) -> Any:
        """Return the batch in new containers, with new tensors if the script changes tensors."""
        handed = self._handed or []
        self._is_changed |= any(tensor._version != version for tensor, version in handed)
        if self._is_changed:
            return rebuilt(self._pristine, _cloned)
        self._handed = []
        return rebuilt(self._copy, self._noted)

    def _noted(self, tensor: torch.Tensor) -> torch.Tensor:
        assert self._handed is not None
        self._handed.append((tensor, tensor._version))
        return tensor


class _Replayed:
    """An epoch from memory, as long as batches are replayed."""

    def __init__(
        self, loaders: Loaders, loader: Any, source: _Source, iterate: Callable[[Any], Any]
    ) -> None:
        self._loaders, self._loader, self._source = loaders, loader, source
        self._iterate, self._real = iterate, None
        self._position = 0

    def __iter__(self) -> _Replayed:
        return self

    def __next__(self) -> Any:
        if not self._loaders.replay and self._real is None:
            self._real = self._iterate(self._loader)
        if self._real is not None:
            return next(self._real)
        again = self._loaders.one_batch
        batch = self._source.serve(self._loader, self._position, again=again)
        self._loaders._note(batch)
        self._position += 1
        return batch

    def __len__(self) -> int:
        return len(self._loader)


def rebuilt(value: Any, tensor: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a batch in new containers, with `tensor` applied to its tensors.

    Lists, tuples, named tuples and mappings are rebuilt; other objects are copied one level deep.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, MutableMapping):
        new = copy.copy(value)
        for key in list(new):
            new[key] = rebuilt(new[key], tensor)
        return new
    if isinstance(value, list | tuple):
        elements = [rebuilt(element, tensor) for element in value]
        return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)
    return copy.copy(value) if hasattr(value, "__dict__") else value


def _rows(batch: Any) -> int | None:
    """Return the length of the first tensor in a batch."""
    if isinstance(batch, MutableMapping):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return next((rows for rows in map(_rows, batch) if rows is not None), None)
    return len(batch) if getattr(batch, "ndim", 0) else None


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    new = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return new.pin_memory() if tensor.is_pinned() else new


def _length(sized: Any) -> float:
    try:
        return len(sized)
    except TypeError:
        return float("inf")


def _without_workers(loader: Any) -> Any:
    """Return a copy of a loader that reads in this process."""
    other = copy.copy(loader)
    other._hotloop_original = loader
    other.num_workers, other.prefetch_factor, other.timeout = 0, None, 0
    return other


def _likeness(loader: Any) -> tuple[object, ...]:
    data, collate = loader.dataset, loader.collate_fn
    named = getattr(collate, "__qualname__", type(collate))
    size, sampler = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    return type(data), _length(data), size, type(sampler), named


def alone(loader: Any, count: int, warm: int) -> list[float]:
    """Read `count` batches of a loader without training; return seconds per batch.

    Workers deliver in bursts, so each reading is the mean over as many batches as there are
    workers. The first `warm` batches of an epoch, which include the start of the workers, do not
    count.
    """
    chunk = max(1, getattr(loader, "num_workers", 0))
    times: list[float] = []
    while len(times) < count:
        batches, before = iter(loader), len(times)
        for _ in zip(range(max(warm, chunk)), batches, strict=False):
            pass
        started, count_in_chunk = time.perf_counter(), 0
        for _ in batches:
            count_in_chunk += 1
            if count_in_chunk == chunk:
                now = time.perf_counter()
                times += [(now - started) / chunk] * chunk
                started, count_in_chunk = now, 0
            if len(times) >= count:
                break
        if len(times) == before:
            break  # an epoch is shorter than its warm-up
    return times[:count]
