"""What a loader without workers spends its time on: reading rows, and collating them."""

from __future__ import annotations

import functools
import random
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotloop.observe.probes.module_calls import plain, sample
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Fetches", "Timed"]

_ITEMS, _COLLATES = 512, 64  # times that are kept of a loader
_EACH = 8  # rows of a batch that are compared with an earlier reading
_FEWEST = 4  # compared rows for which a share is given
_MOST = 4096  # rows that are remembered
_PARTS = 64  # elements of a container that are searched for tensors
_clock = time.perf_counter


@dataclass(slots=True)
class Timed:
    """The times of one loader."""

    items: list[float] = field(default_factory=list)  # seconds per dataset[i]
    collates: list[float] = field(default_factory=list)  # seconds per collate call
    uses_random: bool | None = None
    views: bool | None = None  # rows are parts of tensors or arrays that the data set holds
    rows: dict[Any, Any] = field(default_factory=dict)  # index -> digest of the row
    compared: int = 0
    equal: int = 0

    @property
    def repeats(self) -> float | None:
        """Return the share of rows that were equal when they were read again, or None."""
        return self.equal / self.compared if self.compared >= _FEWEST else None


class _Data:
    """Stands for a data set while one batch is fetched, and times the reading of its rows."""

    def __init__(self, data: Any, timed: Timed) -> None:
        self._data, self._timed = data, timed
        self.read: list[tuple[Any, Any]] = []

    def __getitem__(self, index: Any) -> Any:
        began = _clock()
        item = self._data[index]
        if len(self._timed.items) < _ITEMS:
            self._timed.items.append(_clock() - began)
        if len(self.read) < _EACH:
            self.read.append((index, item))
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)


class Fetches:
    """Times some fetches of loaders that read in the main process."""

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks
        self._timed: dict[int, Timed] = {}
        # id() of data set and collate function -> loader's number; loaders keep both alive
        self._loaders: dict[tuple[int, int], int] = {}

    def of(self, number: int) -> Timed:
        """Return the times of a loader."""
        return self._timed.setdefault(number, Timed())

    def began(self, loader: Any, number: int) -> None:
        """Remember the data set and collate function of a loader that reads in this process."""
        if loader.num_workers == 0:
            self._loaders[id(loader.dataset), id(loader.collate_fn)] = number

    def install(self) -> None:
        """Install a hook around every fetch; it measures only while `Hooks.look` is set."""
        from torch.utils.data._utils import fetch

        hooks, cls = self._hooks, fetch._MapDatasetFetcher
        old: Callable[..., Any] = cls.fetch

        @functools.wraps(old)
        def fetched(fetcher: Any, index: Any) -> Any:
            if not hooks.look:
                return old(fetcher, index)
            number = self._loaders.get((id(fetcher.dataset), id(fetcher.collate_fn)))
            if number is None:
                return old(fetcher, index)
            return self._look(old, fetcher, index, self.of(number))

        hooks.replace(cls, "fetch", fetched)

    def _look(self, old: Callable[..., Any], fetcher: Any, index: Any, timed: Timed) -> Any:
        data, collate = fetcher.dataset, fetcher.collate_fn
        before = self._hooks.guarded(_states)
        timed_data = _Data(data, timed)

        def timed_collate(rows: Any) -> Any:
            began = _clock()
            batch = collate(rows)
            if len(timed.collates) < _COLLATES:
                timed.collates.append(_clock() - began)
            return batch

        fetcher.dataset, fetcher.collate_fn = timed_data, timed_collate
        try:
            return old(fetcher, index)
        finally:
            fetcher.dataset, fetcher.collate_fn = data, collate
            self._hooks.guarded(self._compare, data, timed, timed_data.read, before)

    def _compare(self, data: Any, timed: Timed, items: list[tuple[Any, Any]], before: Any) -> None:
        """Record whether reading drew random numbers, and whether rows equal an earlier reading."""
        timed.uses_random = bool(timed.uses_random) or before != _states()
        if items and timed.views is not False:
            ranges = list(_ranges(data))
            timed.views = all(_lies_in(item, ranges) for _, item in items)
        for index, item in items:
            if not isinstance(index, int):
                continue
            now = _digest(item)
            if index in timed.rows:
                timed.compared += 1
                timed.equal += timed.rows[index] == now
            elif len(timed.rows) < _MOST:
                timed.rows[index] = now


def _lies_in(item: Any, ranges: list[tuple[int, int]]) -> bool:
    """Whether a row has tensors or arrays, and all of them lie in one of these ranges."""
    item_ranges = list(_ranges(item))
    return bool(item_ranges) and all(
        any(first <= begin and end <= last for first, last in ranges) for begin, end in item_ranges
    )


def _ranges(value: Any, depth: int = 4) -> Iterator[tuple[int, int]]:
    """Yield the address range [first, end) of each tensor and array in a value, however nested.

    A column of a table spans the rows of the whole table. Memory that is mapped from a file is left
    out: its pages may have to be read.
    """
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        if plain(value) and not value.is_cuda:
            last = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
            end = (last + 1) * value.element_size() if value.numel() else 0
            yield value.data_ptr(), value.data_ptr() + end
    elif isinstance(value, np.ndarray):
        if not isinstance(value, np.memmap) and not isinstance(value.base, np.memmap):
            yield np.lib.array_utils.byte_bounds(value)
    elif depth and isinstance(value, dict | list | tuple):
        for part in list(value.values() if isinstance(value, dict) else value)[:_PARTS]:
            yield from _ranges(part, depth - 1)
    elif depth and hasattr(value, "__dict__"):
        yield from _ranges(vars(value), depth - 1)


def _states() -> tuple[Any, ...]:
    """Return the states of the global random generators in a comparable form."""
    import torch

    states = [torch.get_rng_state().view(torch.int64).tolist(), random.getstate()]
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        state = numpy.random.get_state()
        states.append((state[1].tobytes(), state[2:]))
    return tuple(states)


def _digest(item: Any, depth: int = 3) -> Any:
    """Return a value by which a row can be compared; for large arrays, a sample."""
    import torch

    if isinstance(item, torch.Tensor):
        return (tuple(item.shape), sample(item)) if plain(item) and not item.is_cuda else None
    if depth and isinstance(item, list | tuple | dict):
        parts = list(item.values()) if isinstance(item, dict) else item
        return tuple(_digest(part, depth - 1) for part in parts[:_EACH])
    if hasattr(item, "tobytes") and hasattr(item, "ravel"):
        every = 1 if item.nbytes < 1 << 16 else item.size // 512  # 0 for few large records
        return item.ravel()[:: max(1, every)].tobytes()
    return item if isinstance(item, int | float | str | bytes | bool) else None


hide(globals())
