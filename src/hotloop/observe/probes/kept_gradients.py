"""Whether gradients add up from step to step, and whether an update is made with the last one's."""

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

_LOOKED_AT = 4  # weights of an optimizer
_State = tuple[int, int]  # a tensor, and how often it was written


class KeptGradients(Probe):
    """Follows gradients from an update through the last backward pass before the next one.

    They are kept if that pass finds what the update left and adds to it in place. Only identities
    and versions of tensors are compared, so that no GPU is waited for. Other optimizers' gradients
    may wait to be cleared meanwhile, as those of a generator do while its critic is trained: what
    counts is the pass that the optimizer's own update follows.

    An update is made again if no backward pass ran since the optimizer's last update, and nothing
    was written to its gradients. That is asked of the updates at the start, until the first one
    that is not looked at: later looks come at every other update, which may be the same of two.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        # By optimizer: its weights with their gradients after its last update.
        self._after: dict[int, list[tuple[weakref.ref[Any], _State]]] = {}
        self._steps: dict[int, int] = {}  # its updates when they were noted
        self._left: dict[int, bool] = {}  # whether the latest pass found them unchanged
        self._kept = self._cleared = 0  # updates
        self._last = 0  # updates at the latest look
        self._is_seen = False  # a pass that adds up since then
        self._place: SourceLocation | None = None
        self._passes = 0  # backward passes that were seen
        self._seen: dict[int, int] = {}  # by optimizer: those until its last update
        self._unbroken: bool | None = None  # whether all since the first look were; None: none was
        self._fresh = self._again = 0  # updates
        self._again_place: SourceLocation | None = None

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """See whether the gradients of the last updates are still there."""
        del tensors
        self._passes += 1
        if not adds_up:
            self._left.clear()  # the script may set gradients by hand
            return
        self._is_seen = True
        for number, noted in self._after.items():
            self._left[number] = all(_state(weight()) == before for weight, before in noted)
        self._place = self._place or here()

    def after_step(self, updates: int) -> None:
        """Count the update, and note its gradients."""
        if updates != self._last + 1 or not self._is_seen:  # something was not looked at
            self._left.clear()
        is_seen = updates == self._last + 1 and self._observer.hooks.look
        if is_seen or self._unbroken:
            self._unbroken = is_seen and self._unbroken is not False
        self._last, self._is_seen = updates, False
        for built, optimizer in alive(self._observer.optimizers):
            number = built.number
            if number is None or not self._has_stepped(number, optimizer):
                continue
            self._compare(number)
            if number in self._left:
                added = [_is_later(_state(w()), before) for w, before in self._after[number]]
                is_kept = self._left.pop(number) and all(added)
                self._kept, self._cleared = self._kept + is_kept, self._cleared + (not is_kept)
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            states = ((weakref.ref(weight), _state(weight)) for weight in weights)
            noted = [(weight, state) for weight, state in states if state is not None]
            self._after[number] = noted[:_LOOKED_AT]
            if not noted:
                del self._after[number]

    def _compare(self, number: int) -> None:
        """Count an update by whether a pass came since the optimizer's last one."""
        passes = self._seen.get(number)
        self._seen[number] = self._passes
        if passes is None or number not in self._after or not self._unbroken:
            return
        is_same = all(_state(weight()) == before for weight, before in self._after[number])
        if passes == self._passes and is_same:
            self._again += 1
            self._again_place = self._again_place or here()
        else:
            self._fresh += 1

    def _has_stepped(self, number: int, optimizer: Any) -> bool:
        """Whether an optimizer has made an update since the last look."""
        states = [state.get("step") for state in optimizer.state.values()]
        count = next((_count(step) for step in states if step is not None), None)
        before = self._steps.get(number)
        if count is None:  # plain SGD counts no steps: it is asked only where it is the only one
            return len(self._observer.optimizers) == 1
        self._steps[number] = count
        return count != before

    def add_to(self, case: Case) -> Case:
        """Add the share of updates that came after gradients were kept, and of those made again."""
        if compared := self._again + self._fresh:
            steps = replace(
                case.steps,
                made_again=self._again / compared,
                again_looks=compared,
                again_place=self._again_place,
            )
            case = replace(case, steps=steps)
        looks = self._kept + self._cleared
        if not looks:
            return case
        steps = replace(
            case.steps,
            kept_gradients=self._kept / looks,
            gradient_looks=looks,
            backward_place=self._place,
        )
        return replace(case, steps=steps)


def _count(step: Any) -> int:
    """Return an optimizer's count of updates; on a GPU the number of writes, to avoid a wait."""
    return int(step._version) if getattr(step, "is_cuda", False) else int(step)


def _state(weight: Any) -> _State | None:
    """Return which tensor a weight's gradient is, and how often it was written; None: it has none.

    A sparse gradient is made anew where another is added.
    """
    gradient = None if weight is None else weight.grad
    if gradient is None or gradient.is_sparse:
        return None
    return gradient._cdata, gradient._version


def _is_later(now: _State | None, before: _State) -> bool:
    """Whether it is the same tensor, written since."""
    return now is not None and now[0] == before[0] and now[1] > before[1]


hide(globals())
