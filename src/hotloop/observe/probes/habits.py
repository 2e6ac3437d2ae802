"""A script's habits around the step: seeds, zeroed gradients, scaling, autocast, lost updates."""

from __future__ import annotations

import bisect
import functools
import itertools
import random
import sys
import threading
import weakref
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import Lost
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.observe.probes.module_calls import plain
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotloop.core.case.case import Case
    from hotloop.core.case.objects import Optimizer, Scaler
    from hotloop.core.finding import SourceLocation

__all__ = ["Habits"]

_PLACES = 8
_POINTS, _NUMBERS = 6, 128  # sampled points of low-precision weights; numbers of each
_UPDATES = 64  # the latest ones are kept, because a learning rate warms up
_STILL = 0.5  # of the spacing: a smaller update is rounded away


@dataclass(slots=True)
class Scaled:
    """The calls of one gradient scaler."""

    scaled: int = 0
    steps: int = 0
    skipped: int = 0
    unscaled: int = 0
    scale: Any = None  # the tensor itself; reading it would wait for the GPU


@dataclass(slots=True)
class Zeroed:
    """How gradients are set to zero."""

    calls: int = 0
    to_none: bool = True


@dataclass(slots=True)
class Weights:
    """Some numbers of a low-precision weight before its update."""

    tensor: Any
    before: Any
    optimizer: int  # its number
    points: int  # of the evenly spread ones that lie in it: its weight in a mean
    numbers: int  # that the optimizer holds of its dtype
    key: int = 0  # id() of the tensor


@dataclass(slots=True)
class Update:
    """The weight's numbers after the update, and their gradients; judged after the run."""

    weights: Weights  # without the tensor itself: the script may free it
    after: Any
    gradient: Any


class Habits(Probe):
    """Observes the calls around the steps."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._seeds = 0
        self._seed_places: dict[SourceLocation, None] = {}
        self._scalers: dict[int | None, Scaled] = {}  # by their index in the observer's list
        self._zeroed: dict[int | None, Zeroed] = {}  # likewise
        self._autocast: dict[str, None] = {}
        self._in_autocast = self._in_step = False
        self._waiting: list[Weights] = []
        self._updates: deque[Update] = deque(maxlen=_UPDATES)
        self._first: dict[tuple[int, int], Any] = {}  # first numbers of each sampled weight

    def on_torch_imported(self) -> None:
        """Install hooks at functions that are called seldom or cost much more than a hook."""
        import torch

        replace_ = self._observer.hooks.replace
        numpy = sys.modules.get("numpy")
        for owner, name in (
            (torch, "manual_seed"),
            (random, "seed"),
            *([(numpy.random, "seed")] if numpy is not None else []),
        ):
            replace_(owner, name, self._seen(getattr(owner, name), self._seeded))
        for cls in (torch.optim.Optimizer, torch.nn.Module):
            replace_(cls, "zero_grad", self._zeroing(cls.zero_grad))
        scaler = torch.amp.GradScaler
        for name in ("scale", "unscale_", "update"):
            notify = functools.partial(self._scaling, name)
            replace_(scaler, name, self._seen(getattr(scaler, name), notify))
        replace_(scaler, "step", self._stepping(scaler.step))

    def _seen(self, old: Callable[..., Any], notify: Callable[..., None]) -> Callable[..., Any]:
        from torch.compiler import is_dynamo_compiling as is_compiling

        hooks = self._observer.hooks

        @functools.wraps(old)
        def seen(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling():
                hooks.quietly(notify, args, kwargs)
            return old(*args, **kwargs)

        return seen

    def _zeroing(self, old: Callable[..., Any]) -> Callable[..., Any]:
        """Return zero_grad with a hook, which is cheap because every step calls it."""
        from torch.compiler import is_dynamo_compiling as is_compiling

        hooks, zeroed = self._observer.hooks, Zeroed()
        last: Callable[[], Any] = _nothing  # owner of `zeroed`: its gradients were zeroed last

        @functools.wraps(old)
        def zero_grad(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling():
                if kwargs or len(args) > 1 or last() is not args[0]:
                    hooks.quietly(note, *args, **kwargs)
                zeroed.calls += 1
            return old(*args, **kwargs)

        def note(owner: Any, set_to_none: bool = True) -> None:
            nonlocal last, zeroed
            key = _index(self._observer.optimizers, owner)  # None: a module's zero_grad
            last, zeroed = weakref.ref(owner), self._zeroed.setdefault(key, Zeroed())
            zeroed.to_none = zeroed.to_none and set_to_none

        return zero_grad

    def _stepping(self, old: Callable[..., Any]) -> Callable[..., Any]:
        hooks = self._observer.hooks

        @functools.wraps(old)
        def step(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            before, self._in_step = hooks.updates, True
            try:
                return old(scaler, *args, **kwargs)
            finally:
                self._in_step = False
                hooks.quietly(self._scaler_stepped, scaler, hooks.updates == before)

        return step

    # What was called.

    def _seeded(self, args: Any, kwargs: Any) -> None:
        is_main = threading.get_ident() == self._observer.events.thread
        if self._observer.hooks.updates and is_main:
            self._seeds += 1
            if len(self._seed_places) < _PLACES and (place := here()) is not None:
                self._seed_places[place] = None

    def _scaling(self, what: str, args: Any, kwargs: Any) -> None:
        scaled = self._scalers.setdefault(_index(self._observer.scalers, args[0]), Scaled())
        scaled.scaled += what == "scale"
        scaled.unscaled += what == "unscale_" and not self._in_step  # step() calls it too
        scaled.scale = getattr(args[0], "_scale", None)

    def _scaler_stepped(self, scaler: Any, skipped: bool) -> None:
        scaled = self._scalers.setdefault(_index(self._observer.scalers, scaler), Scaled())
        scaled.steps += 1
        scaled.skipped += skipped and scaler.is_enabled()

    # What the observer tells, while it looks.

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Record whether autocast is on in a forward pass."""
        self._see_autocast()

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Record whether autocast is on around a forward pass."""
        self._see_autocast()

    def _see_autocast(self) -> bool:
        import torch

        on = False
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
                self._autocast[f"{device} {dtype}"], on = None, True
        return on

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Record whether backward runs under autocast; sample the low-precision weights."""
        if self._see_autocast():
            self._in_autocast = True
        if not self._waiting:
            self._waiting = list(self._low_precision())

    def _low_precision(self) -> list[Weights]:
        import torch

        weights = []
        for built in self._observer.optimizers:
            optimizer = built.reference()
            groups = optimizer.param_groups if optimizer is not None else []
            if built.number is None or not any(group.get("lr") for group in groups[:1]):
                continue  # a rate of 0, as in a warm-up, updates nothing
            for dtype in (torch.bfloat16, torch.float16):
                low = [t for g in groups for t in g["params"] if t.dtype == dtype and plain(t)]
                numbers = sum(tensor.numel() for tensor in low)
                for tensor, points in _by_elements(low, numbers):
                    before, key = _sampled_numbers(tensor), id(tensor)
                    weights.append(Weights(tensor, before, built.number, points, numbers, key))
        return weights

    def after_step(self, updates: int) -> None:
        """Keep the sampled weights after the update."""
        for weights in self._waiting:
            gradient = weights.tensor.grad
            if gradient is not None and plain(gradient):
                after, gradients = _sampled_numbers(weights.tensor), _sampled_numbers(gradient)
                weights.tensor = None
                self._first.setdefault((weights.optimizer, weights.key), weights.before)
                self._updates.append(Update(weights, after, gradients))
        self._waiting = []

    # When the run is over.

    def add_to(self, case: Case) -> Case:
        """Add the facts of optimizers, scalers and the process."""
        optimizers, scalers = self._observer.optimizers, self._observer.scalers
        used = [n for n, built in enumerate(optimizers) if built.facts and built.number is not None]
        if len(used) == len(case.optimizers):
            case = replace(case, optimizers=tuple(map(self._optimizer, used, case.optimizers)))
        known = [n for n, built in enumerate(scalers) if built.facts is not None]
        if len(known) == len(case.scalers):
            case = replace(case, scalers=tuple(map(self._scaler, known, case.scalers)))
        process = replace(
            case.process,
            seeds_in_step=case.process.seeds_in_step + self._seeds,
            seed_places=tuple(self._seed_places),
            autocast=tuple(self._autocast),
            backward_in_autocast=self._in_autocast,
        )
        return replace(case, process=process)

    def _optimizer(self, index: int, optimizer: Optimizer) -> Optimizer:
        own, module = self._zeroed.get(index), self._zeroed.get(None)
        zeroed = own or module
        number = self._observer.optimizers[index].number
        updates = [update for update in self._updates if update.weights.optimizer == number]
        moved = [(update, spacings) for update in updates if len(spacings := _spacings(update))]
        return replace(
            optimizer,
            zero_grad=sum(counter.calls for counter in (own, module) if counter is not None),
            zeroed_to_none=None if zeroed is None else zeroed.to_none,
            updates=tuple(float(spacings.median()) for _, spacings in moved),
            lost=tuple(_lost(moved, self._first)),
        )

    def _scaler(self, index: int, scaler: Scaler) -> Scaler:
        scaled = self._scalers.get(index, Scaled())
        scale = scaled.scale
        dtypes = [entered.split()[1] for entered in self._autocast]
        return replace(
            scaler,
            scaled=scaled.scaled,
            steps=scaled.steps,
            skipped=scaled.skipped,
            unscaled=scaled.unscaled,
            scale=None if scale is None else float(scale),
            autocast=dtypes[0] if dtypes else None,
        )


def _nothing() -> None:
    """Stand for a reference whose object is gone."""


def _index(built: list[Any], instance: Any) -> int | None:
    return next((index for index, entry in enumerate(built) if entry.reference() is instance), None)


def _sampled_numbers(tensor: Any) -> Any:
    """Return a copy of some of a tensor's numbers, evenly spaced."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _NUMBERS)][:_NUMBERS].clone()


def _by_elements(tensors: list[Any], numbers: int) -> list[tuple[Any, int]]:
    """Return the tensors that hold points spread evenly over all elements, with their count."""
    points = [numbers * (2 * index + 1) // (2 * _POINTS) for index in range(_POINTS)]
    ends = list(itertools.accumulate(tensor.numel() for tensor in tensors))
    counts = Counter(bisect.bisect_right(ends, point) for point in points if point < numbers)
    return [(tensors[index], count) for index, count in counts.items()]


def _spacings(update: Update) -> Any:
    """Return |update| of each sampled number, in units of the spacing of numbers at the weight.

    Only numbers with a gradient count: unused rows of an embedding do not change. The spacing is
    2^(exponent of the weight) times the dtype's eps.
    """
    import torch

    before = update.weights.before
    moved = (update.after.double() - before.double()).abs()
    has_gradient = (update.gradient != 0) & (before != 0)
    info = torch.finfo(before.dtype)
    exponent = before.double().abs().clamp_min(info.tiny).log2().floor()
    spacing = torch.exp2(exponent) * info.eps
    return (moved / spacing)[has_gradient]


def _lost(moved: list[tuple[Update, Any]], first: dict[tuple[int, int], Any]) -> list[Lost]:
    """Return for each dtype the share of the updates that did not change the weight."""
    by_dtype: dict[str, list[tuple[Update, Any]]] = defaultdict(list)
    for update, spacings in moved:
        by_dtype[str(update.after.dtype).removeprefix("torch.")].append((update, spacings))
    losses = []
    for dtype, pairs in by_dtype.items():
        last = {update.weights.key: update for update, _ in pairs}
        never = _mean(
            (update.weights.points, _unmoved(first[update.weights.optimizer, key], update))
            for key, update in last.items()
        )
        share = _mean((u.weights.points, (s < _STILL).double().mean()) for u, s in pairs)
        numbers, tensors = max(update.weights.numbers for update, _ in pairs), len(last)
        losses.append(Lost(dtype=dtype, numbers=numbers, share=share, never=never, tensors=tensors))
    return losses


def _unmoved(first: Any, last: Update) -> float:
    """Return the share of a weight's numbers with a gradient that still have their first value."""
    has_gradient = (last.gradient != 0) & (last.weights.before != 0)
    if first.shape != last.after.shape:  # another tensor has its id() now
        return 0.0
    return float((last.after == first)[has_gradient].double().mean())


def _mean(weighed: Iterable[tuple[int, Any]]) -> float:
    """Return the weighted mean of (weight, value) pairs."""
    pairs = [(weight, float(value)) for weight, value in weighed]
    return sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)


hide(globals())
