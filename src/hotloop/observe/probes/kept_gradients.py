"""Whether gradients are cleared between two updates, or add up from step to step."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.observe.hooks.stack_frames import here
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["KeptGradients"]

_LOOKED_AT = 4  # parameters of an optimizer


class KeptGradients(Probe):
    """Compares gradients at an update with those at the last backward pass before the next one.

    Other optimizers' gradients may wait to be cleared meanwhile, as those of a generator do while
    its critic is trained: what counts is the pass that the optimizer's own update follows.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        # By optimizer: its parameters with the sums of their gradients after its last update.
        self._after: dict[int, list[tuple[weakref.ref[Any], float]]] = {}
        self._steps: dict[int, int] = {}  # updates when they were noted
        self._left: dict[int, bool] = {}  # whether the latest pass found them unchanged
        self._kept = self._cleared = 0  # updates
        self._last = 0  # updates at the latest look
        self._is_seen = False  # the backward pass since then
        self._place: SourceLocation | None = None

    def on_backward(self, tensors: Any) -> None:
        """See whether the gradients of the last updates are still there."""
        del tensors
        self._is_seen = True
        for number, noted in self._after.items():
            self._left[number] = all(
                (weight := reference()) is not None
                and weight.grad is not None
                and float(weight.grad.detach().abs().sum()) == before
                for reference, before in noted
            )
        self._place = self._place or here()

    def after_step(self, updates: int) -> None:
        """Count the update, and note its gradients."""
        if updates != self._last + 1 or not self._is_seen:  # something was not looked at
            self._left.clear()
        self._last, self._is_seen = updates, False
        for built, optimizer in alive(self._observer.optimizers):
            number = built.number
            if number is None or not self._has_stepped(number, optimizer):
                continue
            if number in self._left:
                left = self._left.pop(number)
                self._kept, self._cleared = self._kept + left, self._cleared + (not left)
            weights = [
                weight
                for group in optimizer.param_groups
                for weight in group["params"]
                if weight.grad is not None and weight.grad.layout is not _sparse()
            ][:_LOOKED_AT]
            sums = [(weakref.ref(w), float(w.grad.detach().abs().sum())) for w in weights]
            self._after[number] = [(weight, total) for weight, total in sums if total]
            if not self._after[number]:
                del self._after[number]

    def _has_stepped(self, number: int, optimizer: Any) -> bool:
        """Whether an optimizer has made an update since the last look."""
        states = [state.get("step") for state in optimizer.state.values()]
        count = next((int(step) for step in states if step is not None), None)
        before = self._steps.get(number)
        if count is None:  # plain SGD counts no steps: it is asked only where it is the only one
            return len(self._observer.optimizers) == 1
        self._steps[number] = count
        return count != before

    def add_to(self, case: Case) -> Case:
        """Add how many updates came after others' gradients were kept."""
        if not self._kept + self._cleared:
            return case
        share = self._kept / (self._kept + self._cleared)
        return replace(
            case, steps=replace(case.steps, kept_gradients=share, backward_place=self._place)
        )


def _sparse() -> Any:
    import torch

    return torch.sparse_coo


hide(globals())
