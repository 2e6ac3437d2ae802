"""Weights that two optimizers update after one backward pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import TwiceUpdated
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.case import Case

__all__ = ["TwiceUpdatedProbe"]

_State = tuple[int, int, int]  # writes to a weight; its gradient, and writes to that


class TwiceUpdatedProbe(Probe):
    """Compares the weights that two optimizers hold from one update to the next (while looking).

    A weight is updated twice if the second of two updates in a row writes to it, no backward pass
    came between them, and its gradient is the same tensor, not written since.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._before: dict[int, _State] = {}  # by the weight's identity, after the last update
        self._last = self._passes = 0  # updates at the latest look; backward passes since then
        self._pairs = Counter[tuple[int, int]]()  # by optimizers: updates that were the second
        # And their weights, by identity, with name and size.
        self._weights: dict[tuple[int, int], dict[int, tuple[str, int]]] = {}

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Count a pass."""
        del tensors, adds_up
        self._passes += 1

    def after_step(self, updates: int) -> None:
        """Compare the shared weights with what they were."""
        used = [
            (built.number, optimizer)
            for built, optimizer in alive(self._observer.optimizers)
            if built.number is not None
        ]
        if len(used) < 2:
            return
        held: dict[int, tuple[Any, list[int]]] = {}
        wrapped = {id(part) for _, optimizer in used for part in _parts(optimizer)}
        for number, optimizer in used:
            if id(optimizer) in wrapped:  # another one's step() calls its step()
                continue
            for weight in (one for group in optimizer.param_groups for one in group["params"]):
                held.setdefault(id(weight), (weight, []))[1].append(number)
        shared = {key: one for key, one in held.items() if len(set(one[1])) > 1}
        now = {key: _state(weight) for key, (weight, _) in shared.items() if _has_gradient(weight)}
        is_seen = updates == self._last + 1 and self._observer.hooks.look  # and its passes
        if is_seen and not self._passes:
            self._compare(now, shared)
        self._before, self._last, self._passes = now, updates, 0

    def _compare(self, now: dict[int, _State], shared: dict[int, tuple[Any, list[int]]]) -> None:
        pairs = set()
        for key, (writes, *gradient) in now.items():
            before = self._before.get(key)
            if before is None or writes <= before[0] or tuple(gradient) != before[1:]:
                continue
            weight, numbers = shared[key]
            first, second = sorted(set(numbers))[:2]
            pairs.add((first, second))
            known = self._weights.setdefault((first, second), {})
            if key not in known:
                known[key] = _name(self._observer.roots, weight), weight.numel()
        self._pairs.update(pairs)

    def add_to(self, case: Case) -> Case:
        """Add what was updated twice."""
        found = tuple(
            TwiceUpdated(
                optimizers=pair,
                updates=count,
                parameters=sum(size for _, size in self._weights[pair].values()),
                names=tuple(name for name, _ in self._weights[pair].values()),
            )
            for pair, count in self._pairs.items()
        )
        return replace(case, twice_updated=found) if found else case


def _has_gradient(weight: Any) -> bool:
    return weight.grad is not None and not weight.grad.is_sparse


def _state(weight: Any) -> _State:
    return weight._version, weight.grad._cdata, weight.grad._version


def _name(roots: Any, weight: Any) -> str:
    names = (
        f"{type(root).__name__}.{name}"
        for _, root in alive(roots)
        for name, parameter in root.named_parameters()
        if parameter is weight
    )
    return next(names, "a weight")


def _parts(optimizer: Any) -> Iterator[Any]:
    """Yield what an optimizer holds, alone or in a list: other optimizers that it steps."""
    for value in vars(optimizer).values():
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list | tuple):
            yield from value
        else:
            yield value


hide(globals())
