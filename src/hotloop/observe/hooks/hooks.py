"""The hooks in PyTorch, at calls that every training script makes, whatever its loop looks like.

A hook appends a mark and, while `look` is set, calls the listener. Nothing here waits for a
device, and every function that Dynamo could trace returns at once while it compiles (PROBE 2: a
hook that does not recompiles the model at every step). If a hook fails, observing ends: all hooks
are removed, unless techniques work through them, and the script goes on.
"""

from __future__ import annotations

import sys
import weakref
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import NUMBERS, EventBuffer, EventCode
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.hooks.listener import Listener

__all__ = ["ABSENT", "LAST", "Hooks", "StandIn", "unseen"]

LAST = NUMBERS - 1
ABSENT: Any = object()  # stands for an attribute that a class does not define itself


class Hooks:
    """Holds the hooks that training_hooks.py puts into PyTorch, and removes them again."""

    def __init__(self, events: EventBuffer, listener: Listener) -> None:
        self.events, self.listener = events, listener
        self.thread = events.thread  # the observed thread; calls from other threads pass through
        self.look = False  # call the listener at batches, forward passes and losses
        self.wake = 1  # call `listener.after_step` once this many updates have been made
        self.updates = 0
        self.elsewhere = False  # another thread steps an optimizer; it is not observed
        self.by_hand = True  # no optimizer was built: backward passes count as updates
        self.fault: BaseException | None = None
        self.inside = False  # an outermost module is running
        self.learning = True  # while looking, report the calls inside an outermost module too
        # Set by techniques; where empty or None, it costs one truth test.
        self.around: dict[int, Callable[..., Any]] = {}  # id of an outermost module -> its caller
        self.through: Callable[..., Any] | None = None  # runs the backward passes
        # Receives the codes of calls: observe/probes/cuda.py.
        self.timed: Callable[[int], None] | None = None
        self.settle: Callable[[], None] | None = None  # waits for the GPU before own work
        # Receives the tensors that are differentiated, and whether gradients are added up:
        # observe/ledger/window.py.
        self.differentiated: Callable[[Any, bool], None] | None = None
        self.announces_first_forward = False  # call `listener.before_first_forward`
        self.needed = False  # techniques use the hooks, which then outlive observing
        self._forwarded: set[int] = set()
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # owner, name, before, ours
        self._removables: list[Any] = []
        self._numbers: dict[int, int] = {}  # id of optimizers and outermost modules -> number

    def failed(self, error: BaseException) -> None:
        """End observing because hotloop's own code failed; the script must not notice."""
        if self.fault is None:
            self.fault = error
            self.events.close()
            if not self.needed:
                self.remove_all()

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call the listener between OWN marks; return None, and end observing, if it fails."""
        try:
            if self.settle is not None:
                self.settle()
            self.events.note(EventCode.OWN)
            try:
                return call(*args)
            finally:
                self.events.note(EventCode.OWN_END)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            return self.failed(error)

    def quietly(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call hotloop's own bookkeeping without marks around it; end observing if it fails."""
        try:
            call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            self.failed(error)

    def when_down(self, removable: Any) -> None:
        """Call `thing.remove` when the hooks are removed."""
        self._removables.append(removable)

    def replace(self, owner: Any, name: str, new: Any) -> Any:
        """Set owner.name and return the old value, which `remove_all` restores.

        A function is also replaced in the module that its __module__ names: pickle looks there.
        """
        old = getattr(owner, name)
        if isinstance(owner, ModuleType):
            if not isinstance(old, FunctionType) and type(new) is not StandIn:
                new = StandIn(old, new)
            home = sys.modules.get(str(getattr(old, "__module__", None)))
            of_home = getattr(old, "__qualname__", name)
            if vars(home or owner).get(of_home) is old:
                self._set(home or owner, of_home, new)
            elif isinstance(old, FunctionType):
                new.__module__, new.__qualname__ = owner.__name__, name
        self._set(owner, name, new)
        return old

    def _set(self, owner: Any, name: str, new: Any) -> None:
        own = owner.__dict__.get(name, ABSENT)
        if own is not new:
            self._replaced.append((owner, name, own, new))
            setattr(owner, name, new)

    def remove_all(self) -> None:
        """Restore everything, unless somebody else has replaced it since.

        Such a replacement calls our hook, which from then on only calls the original.
        """
        self.thread = 0  # nobody's
        for owner, name, old, ours in reversed(self._replaced):
            if owner.__dict__.get(name) is not ours:
                continue
            if old is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        self._replaced.clear()
        for hook in self._removables:
            hook.remove()
        self._removables.clear()
        self.around.clear()
        self.through, self.announces_first_forward = None, False
        self.timed = self.settle = None

    def number_of(self, target: Any, ask: Callable[[Any], int]) -> int:
        """Return the number of an optimizer or module; the listener gives it at the first use."""
        number = self._numbers.get(id(target))
        if number is None:
            answer = self.guarded(ask, target)
            number = self._numbers[id(target)] = LAST if answer is None else min(answer, LAST)
            _when_gone(target, self._numbers.pop, id(target), None)
        return number

    def first_forward(self, module: Any) -> None:
        """Tell the listener, once per module, that an outermost module runs with gradients."""
        if id(module) not in self._forwarded:
            self._forwarded.add(id(module))
            _when_gone(module, self._forwarded.discard, id(module))
            self.guarded(self.listener.before_first_forward, module)


class StandIn:
    """Stands for a function written in C, and looks like it in all but its type.

    A Python function would not do: as an attribute of a class it would become a method, which most
    functions written in C do not.
    """

    def __init__(self, old: Any, new: Callable[..., Any]) -> None:
        self._old, self._new = old, new
        self.__dict__.update(__module__=getattr(old, "__module__", None), __doc__=old.__doc__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the replacement."""
        return self._new(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._old, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        binds = not isinstance(self._old, MethodType) and hasattr(type(self._old), "__get__")
        return MethodType(self, instance) if binds and instance is not None else self

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what isinstance() asks
        return type(self._old)

    def __repr__(self) -> str:
        return repr(self._old)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._old.__reduce_ex__(protocol)


def _when_gone(target: Any, call: Callable[..., Any], *args: Any) -> None:
    """Call `call` when `target` is freed, after which another object may have its id."""
    weakref.finalize(target, call, *args).atexit = False


def unseen(function: Any, *, below: bool = False) -> Any:
    """Return `function` marked so that Dynamo does not compile it or, with `below`, what it calls.

    Dynamo compiles functions that are called between the compiled parts of a script, also hooks, at
    the price of a graph break each (tests/observe/hooks/test_module_hooks.py).
    """
    from torch._C._dynamo import eval_frame

    skip, default = eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
    strategy = eval_frame._FrameExecStrategy(skip, skip if below else default)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function


hide(globals())
