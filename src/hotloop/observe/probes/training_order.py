"""Whether the training rows have the same order in each epoch, and rows of a kind stand together.

The targets are read where the loss keeps them for its backward pass, so that batches made by hand
count like those of a loader. A few numbers of each sampled batch are kept.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.steps_and_loaders import TrainingOrder as Facts
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.observe.probes.alike import alike
from hotloop.observe.probes.batches import fields
from hotloop.observe.probes.module_calls import plain
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Loader
    from hotloop.core.finding import SourceLocation

__all__ = ["OrderProbe"]

_UPDATES = 512  # that are kept
_ROWS = 64  # targets of a batch that are kept
_NUMBERS = 256  # of a batch's inputs that are compared
_COLUMNS = 16  # of a row's target: an image as the target is no kind
_NODES = 32  # of the graph that are searched for a loss
_FEWEST, _REPEATED = 6, 4  # updates of an epoch; of those that came again
_PAIRED, _SEARCHED = 6, 3  # rows, and batches, that are searched for windows
_SHIFTS = 512  # distances between windows that are tried


@dataclass(slots=True)
class _Update:
    """What was kept of one update."""

    inputs: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)  # [B, C] of each backward pass
    whole: bool = True  # the target of each pass was seen
    address: tuple[int, int] | None = None  # of the first inputs: their memory, and where in it
    number: int = -1  # of the loader that gave the latest batch
    given: list[Any] = field(default_factory=list)  # its fields that may be the target

    @property
    def loader(self) -> int | None:
        """The number of the loader that gave the target; None if none did."""
        target = self.targets[-1].reshape(-1).tolist()
        is_given = any(rows.reshape(-1).tolist() == target for rows in self.given)
        return self.number if is_given else None


class OrderProbe(Probe):
    """Keeps targets and inputs of the sampled updates."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._updates: dict[int, _Update] = {}
        self._called: list[Any] = []  # inputs since the last backward pass
        self._address: tuple[int, int] | None = None  # of the first of them
        self._rows = 0  # of the first of them
        self._batch: tuple[int, list[Any]] = -1, []
        self._outputs: dict[int, Any] = {}  # the last outputs' storages, held weakly
        self._is_stateful = False  # the model is given what it returned, or keeps a state itself
        self._states: list[weakref.ref[Any]] | None = None  # tensors that are no parameters
        self._starts: list[Any] = []  # the first rows of some batches
        self._place: SourceLocation | None = None

    def on_batch(self, number: int, batch: Any) -> None:
        """Keep the fields that may be targets, until the next batch."""
        self._batch = number, [t for _, t in fields(batch) if plain(t) and t.dim()]

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Note a recurrent module that is given its state."""
        if len(args) > 1 or kwargs.get("hx") is not None:
            from torch.nn.modules.rnn import RNNBase, RNNCellBase

            self._is_stateful |= isinstance(module, RNNBase | RNNCellBase)

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Keep some numbers of the inputs of a pass with gradients."""
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        if len(self._updates) >= _UPDATES or not torch.is_grad_enabled():
            return
        if next(module.parameters(), None) is None:
            return
        inputs = [t for _, t in fields((args, kwargs)) if plain(t) and t.dim()]
        self._is_stateful |= any(t.untyped_storage()._cdata in self._outputs for t in inputs)
        # An address is no identity: the memory of a freed output may hold the next batch.
        returned = [t.untyped_storage() for _, t in fields((output,)) if plain(t)]
        self._outputs = {
            storage._cdata: StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            for storage in returned
        }
        if not inputs:
            return
        if not self._called:
            self._look_for_state(module)
            self._rows, self._address = len(inputs[0]), _address(inputs[0])
            self._place = self._place or here()
            if len(self._starts) < _SEARCHED:
                self._starts.append(inputs[0].detach()[:_PAIRED].clone())
        self._called += [_some(tensor, _NUMBERS) for tensor in inputs[:2]]

    def _look_for_state(self, module: Any) -> None:
        """Note that a module sets attributes to new tensors from batch to batch."""
        if len(self._starts) >= _SEARCHED:
            return
        states = [weakref.ref(v) for p in module.modules() for v in vars(p).values() if plain(v)]
        before, self._states = self._states, states
        self._is_stateful |= before is not None and list(map(_id, before)) != list(map(_id, states))

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Keep the target of the loss, if each of its rows belongs to a row of the inputs."""
        called, self._called = self._called, []
        if len(self._updates) >= _UPDATES:
            return
        update = self._updates.setdefault(self._observer.hooks.updates, _Update())
        if not update.inputs:
            update.address = self._address
        update.inputs += called
        first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
        target = next((t for t in _targets(first) if called and len(t) == self._rows), None)
        if target is None:
            update.whole = False
            return
        update.targets.append(_thinned(target))
        number, given = self._batch
        same = [_thinned(t) for t in given if len(t) == len(target) and t.numel() == target.numel()]
        update.given, update.number = same, number

    def add_to(self, case: Case) -> Case:
        """Add how the rows are ordered, if that was seen."""
        updates = {n: u for n, u in self._updates.items() if u.whole and u.targets}
        loaders = {loader.key: loader for loader in case.loaders if loader.role == "train"}
        if self._is_stateful or any(loader.iterable for loader in loaders.values()):
            return case
        hashes = {n: _hash(update.inputs) for n, update in updates.items()}
        period, repeated = fixed_order(hashes)
        if period is None:
            addresses = {n: update.address for n, update in updates.items()}
            is_kept = len(set(addresses.values())) == len(set(hashes.values()))
            period, repeated = in_memory_order(addresses) if is_kept else (None, 0)
        numbers = {update.loader for update in updates.values()}
        number = numbers.pop() if len(numbers) == 1 else None
        loader = loaders.get(number) if number is not None else None
        last = math.inf
        if period is None:  # a sampler vouches for the first epoch; others may read other rows
            last = min(updates, default=0) + _sequential_updates(loader, case)
        distinct = {hashes[n]: updates[n].targets for n in updates if n < last}
        measured = alike(list(distinct.values()))
        if measured is None:
            return case
        return replace(
            case,
            order=Facts(
                alike=measured.alike,
                deviations=measured.deviations,
                updates=len(distinct),
                values=measured.values,
                per_update=measured.per_update,
                by_chance=measured.by_chance,
                period=period,
                repeated=repeated,
                windows=any(map(_are_windows, self._starts)),
                loader=loader.key if loader else None,
                place=loader.place if loader else self._place,
            ),
        )


def fixed_order(hashes: Mapping[int, int]) -> tuple[int | None, int]:
    """Return after how many updates the batches come again in the same order, and how many did.

    The hashes are those of the sampled updates, by number. None if they come in another order, do
    not come again, or come again so soon that an epoch has less than 6 updates.
    """
    by_hash = defaultdict(list)
    for number in sorted(hashes):
        by_hash[hashes[number]].append(number)
    repeated = [numbers for numbers in by_hash.values() if len(numbers) > 1]
    period = math.gcd(*(n - numbers[0] for numbers in repeated for n in numbers[1:]))
    if period < _FEWEST or len(repeated) < _REPEATED:
        return None, 0
    at = defaultdict(set)
    for number, hashed in hashes.items():
        at[number % period].add(hashed)
    return (None, 0) if any(len(kinds) > 1 for kinds in at.values()) else (period, len(repeated))


def in_memory_order(addresses: Mapping[int, tuple[int, int] | None]) -> tuple[int | None, int]:
    """Return the same for batches that are slices of one tensor, read from its start to its end.

    Two updates in a row show the distance between batches. It tells which batch each other one is,
    and so in which update of its epoch it came.
    """
    known = {n: address for n, address in addresses.items() if address is not None}
    first = next((n for n in sorted(known) if n + 1 in known), None)
    if first is None or len(known) < len(addresses):
        return None, 0
    memory, start = known[first]
    distance = known[first + 1][1] - start
    if distance <= 0 or any(memory != other for other, _ in known.values()):
        return None, 0
    if any((offset - start) % distance for _, offset in known.values()):
        return None, 0
    places = {n: (offset - start) // distance for n, (_, offset) in known.items()}
    period = math.gcd(*(n - first - place for n, place in places.items()))
    later = sum(n - first != place for n, place in places.items())
    is_whole = max(places.values()) - min(places.values()) < period
    return (period, later) if is_whole and period >= _FEWEST and later >= _REPEATED else (None, 0)


def _address(tensor: Any) -> tuple[int, int] | None:
    """Return a tensor's memory, and where in it the tensor begins; None if it has all of that."""
    storage = tensor.untyped_storage()
    if storage.nbytes() <= tensor.nbytes:
        return None
    return storage.data_ptr(), tensor.storage_offset()


def _id(reference: weakref.ref[Any]) -> int:
    return id(reference())


def _sequential_updates(loader: Loader | None, case: Case) -> float:
    """Return the updates of an epoch of a loader that reads row after row; 0 if it does not."""
    if loader is None or loader.sampler != "SequentialSampler" or loader.shuffle is not False:
        return 0
    return (loader.batches or 0) / (case.steps.backwards or 1.0)


def _targets(loss: Any) -> Iterator[Any]:
    """Yield the targets that losses keep for their backward pass, [B] or [B, a few]."""
    waiting = [getattr(loss, "grad_fn", None)]
    for node in waiting:
        if node is None:
            continue
        try:
            target = getattr(node, "_saved_target", None)
        except RuntimeError:  # freed, or written into
            target = None
        if target is not None and plain(target) and target.dim() and len(target):
            wide = target.numel() // len(target)
            if wide <= _COLUMNS and (target.is_floating_point() or wide == 1):
                yield target
        if len(waiting) < _NODES:
            waiting += [below for below, _ in node.next_functions]


def _thinned(target: Any) -> Any:
    """Return a copy of some rows of a target, [B, C]."""
    rows = target.detach().reshape(len(target), -1)
    return rows[:: max(1, len(rows) // _ROWS)].clone()


def _some(tensor: Any, most: int) -> Any:
    """Return a copy of numbers spread over a tensor, always the same places."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, len(flat) // most) | 1].clone()


def _hash(inputs: Sequence[Any]) -> int:
    return hash(tuple(tuple(tensor.tolist()) for tensor in inputs))


def _are_windows(rows: Any) -> bool:
    """Whether each row is the row before it, moved along one of its dims: windows of a series."""
    import torch

    if len(rows) < 2:
        return False
    for dim in range(1, rows.dim()):
        size = rows.shape[dim]
        for shift in range(1, min(_SHIFTS, size // 2) + 1):
            if not torch.equal(rows[0].select(dim - 1, shift), rows[1].select(dim - 1, 0)):
                continue
            now = rows[:-1].narrow(dim, shift, size - shift)
            if torch.equal(now, rows[1:].narrow(dim, 0, size - shift)):
                return len(torch.unique(now)) > 1
    return False


hide(globals())
