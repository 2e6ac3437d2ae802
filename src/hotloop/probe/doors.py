"""PyTorch's doors: where every training script must pass, whatever its loop looks like.

A door marks the tape and, when it is asked to look, tells the listener. Nothing here waits for a
device, and every function that Dynamo could trace returns at once while it compiles (PROBE 2: a
hook without that recompiles the model at every step). A hook of ours that fails takes all doors
out, and the script goes on.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from hotloop.probe.tape import BITS, NUMBERS, Code, Tape

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Doors", "Listener"]

_clock, _me = time.perf_counter_ns, threading.get_ident
_LAST = NUMBERS - 1
_AT_MOST = 4  # classes of outermost modules with a door of their own


class Listener(Protocol):
    """Who is told. Calls cost time, so most of them come only while `Doors.look` is set."""

    def built_loader(self, loader: Any) -> None:
        """A DataLoader was built; its options may still be changed in place."""

    def asked(self, loader: Any) -> None:
        """An iterator of the loader is asked for; none is built yet."""

    def iterating(self, loader: Any, iterator: Any) -> int:
        """Return the loader's number; an iterator for it was built."""

    def took(self, number: int, batch: Any) -> None:
        """A loader gave a batch (while looking)."""

    def root(self, module: Any) -> int:
        """Return the module's number; it is the outermost one, called for the first time."""

    def arriving(self, module: Any) -> None:
        """An outermost module is about to run with gradients for the first time."""

    def passed(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """An outermost module was called (while looking)."""

    def inside(self, module: Any, args: Any, kwargs: Any) -> None:
        """A module inside the outermost one is called (while looking)."""

    def loss(self, tensors: Any) -> None:
        """Backward begins from these (while looking)."""

    def built_optimizer(self, optimizer: Any) -> None:
        """An optimizer was built."""

    def updates(self, optimizer: Any) -> int:
        """Return the optimizer's number; it is stepped for the first time."""

    def stepped(self) -> None:
        """An optimizer was stepped, and `Doors.wake` steps have been made."""

    def built_scheduler(self, scheduler: Any) -> None:
        """A learning-rate scheduler was built."""

    def built_scaler(self, scaler: Any) -> None:
        """A gradient scaler was built."""

    def saved(self, thing: Any, path: Any, seconds: float) -> None:
        """A file was saved."""


class Doors:
    """Puts the doors up and takes them down. Everything it replaced is remembered."""

    def __init__(self, tape: Tape, listener: Listener) -> None:
        self.tape, self.listener = tape, listener
        self.look = False  # call the listener at batches, forward passes and losses
        self.wake = 1  # call `listener.stepped` when so many updates have been made
        self.updates = 0
        self.fault: BaseException | None = None
        self.inside = False  # an outermost module is running
        self.learning = True  # every module's call is seen, to find the outermost ones
        # What techniques put in; empty or None costs a truth test.
        self.around: dict[int, Callable[..., Any]] = {}  # id of an outermost module -> its caller
        self.through: Callable[..., Any] | None = None  # runs the backward passes
        self.arrivals = False  # tell of each outermost module's first call with gradients
        self._arrived: set[int] = set()
        self._replaced: list[tuple[Any, str, Any]] = []
        self._hooks: list[Any] = []
        self._numbers: dict[int, int] = {}  # id of optimizers and outermost modules -> number
        self._classes: set[type] = set()  # of outermost modules
        self._calls: tuple[Any, Any] | None = (
            None  # Module.__call__ that sees all, and the plain one
        )

    def failed(self, error: BaseException) -> None:
        """Take the doors out: hotloop's own code failed, and the script must not notice."""
        if self.fault is None:
            self.fault = error
            self.take_down()

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call the listener; its failure is ours alone, and so is its time. Returns None then."""
        try:
            self.tape.note(Code.OWN)
            try:
                return call(*args)
            finally:
                self.tape.note(Code.OWN_END)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            self.failed(error)
            return None

    def quietly(self, call: Callable[..., Any], *args: Any) -> None:
        """Call our own bookkeeping without marks around it."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            self.failed(error)

    def replace(self, owner: Any, name: str, new: Any) -> Any:
        """Set owner.name and return what was there; `take_down` puts it back."""
        old = getattr(owner, name)
        own = owner.__dict__.get(name, _ABSENT) if isinstance(owner, type) else old
        self._replaced.append((owner, name, own))
        setattr(owner, name, new)
        return old

    def take_down(self) -> None:
        """Put everything back."""
        for owner, name, old in reversed(self._replaced):
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        self._replaced.clear()
        self._classes.clear()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.around.clear()
        self.through, self.arrivals = None, False

    def put_up(self) -> None:
        """Put up all doors; torch has been imported."""
        _loaders(self)
        _modules(self)
        _backward(self)
        _optimizers(self)
        _others(self)

    def number_of(self, thing: Any, ask: Callable[[Any], int]) -> int:
        """Return the number of an optimizer or module, from the listener at the first time."""
        number = self._numbers.get(id(thing))
        if number is None:
            answer = self.guarded(ask, thing)
            number = self._numbers[id(thing)] = _LAST if answer is None else min(answer, _LAST)
        return number

    def arrive(self, module: Any) -> None:
        """Tell once that an outermost module runs with gradients."""
        if id(module) not in self._arrived:
            self._arrived.add(id(module))
            self.guarded(self.listener.arriving, module)

    def learn(self) -> None:
        """See every module's call again, because an unknown outermost one may come."""
        if not self.learning and self.fault is None:
            self.learning = True
            self._set_call(0)

    def learned(self) -> None:
        """Leave doors at the classes of the outermost modules only."""
        if self.learning and self.fault is None and len(self._classes) <= _AT_MOST:
            self.learning = False
            self._set_call(1)

    def _set_call(self, which: int) -> None:
        import torch

        if self._calls is not None:
            torch.nn.Module.__call__ = self._calls[which]  # type: ignore[method-assign]


_ABSENT: Any = object()


def _loaders(doors: Doors) -> None:
    from torch.utils.data import dataloader

    base, mark, tape = dataloader._BaseDataLoaderIter, doors.tape.mark, doors.tape

    def built(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        started = _clock()
        self._hotloop = _LAST
        old_init(self, loader, *args, **kwargs)
        ended = _clock()
        number = doors.guarded(doors.listener.iterating, loader, self)
        self._hotloop = _LAST if number is None else min(number, _LAST)
        doors.quietly(epoch, self, started, ended)

    def reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        started = _clock()
        old_reset(self, loader, first_iter)
        if not first_iter:  # a persistent iterator starts its next epoch
            doors.quietly(epoch, self, started, _clock())

    def epoch(iterator: Any, started: int, ended: int) -> None:
        number = getattr(iterator, "_hotloop", _LAST)
        tape.note(Code.ITERATE, number, at=started)
        tape.note(Code.ITERATE_END, number, at=ended)

    def next_batch(self: Any) -> Any:
        if _me() != tape.thread:
            return old_next(self)
        try:
            number = self._hotloop << 5
            mark(_clock() << BITS | number)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return old_next(self)
        try:
            batch = old_next(self)
        finally:
            mark(_clock() << BITS | number | 1)
        if doors.look:
            doors.guarded(doors.listener.took, number >> 5, batch)
        return batch

    old_init = doors.replace(base, "__init__", functools.wraps(base.__init__)(built))
    old_reset = doors.replace(base, "_reset", functools.wraps(base._reset)(reset))
    old_next = doors.replace(base, "__next__", functools.wraps(base.__next__)(next_batch))
    _after_init(doors, dataloader.DataLoader, doors.listener.built_loader)

    def iterate(self: Any) -> Any:
        if _me() == tape.thread:
            doors.guarded(doors.listener.asked, self)
        return old_iterate(self)

    plain = dataloader.DataLoader.__iter__
    old_iterate = doors.replace(dataloader.DataLoader, "__iter__", functools.wraps(plain)(iterate))


def _after_init(doors: Doors, cls: Any, tell: Callable[[Any], None]) -> None:
    """Tell of each new instance, once, when the outermost constructor is done."""
    old = cls.__init__

    @functools.wraps(old)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        old(self, *args, **kwargs)
        doors.guarded(tell, self)

    doors.replace(cls, "__init__", init)


def _modules(doors: Doors) -> None:
    import torch
    from torch.compiler import is_compiling

    tape, mark, listener = doors.tape, doors.tape.mark, doors.listener
    module_class, with_grad = torch.nn.Module, torch.is_grad_enabled
    plain = module_class.__call__

    def outermost(old: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        try:
            number = doors.number_of(module, listener.root)
            grad = with_grad()
            kind = (2 if module.training else 6) if grad else 4
            if doors.arrivals and grad:
                doors.arrive(module)
            call = doors.around.get(id(module)) if doors.around else None
            if doors.learning:
                _door_of_its_own(doors, type(module), call_of_class)
            opening = number << 5 | kind
            mark(_clock() << BITS | opening)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return old(module, *args, **kwargs)
        doors.inside = True
        try:
            if call is None:
                output = old(module, *args, **kwargs)
            else:
                output = call(old, module, args, kwargs)
        finally:
            doors.inside = False
            mark(_clock() << BITS | opening | 1)
        if doors.look:
            doors.guarded(listener.passed, number, module, args, kwargs, output)
        return output

    def any_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or _me() != tape.thread:
            return plain(self, *args, **kwargs)
        if doors.inside:
            if doors.look:
                doors.guarded(listener.inside, self, args, kwargs)
            return plain(self, *args, **kwargs)
        return outermost(plain, self, args, kwargs)

    def call_of_class(cls: type, own: Any) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            old = module_class.__call__ if own is _ABSENT else own
            if is_compiling() or doors.inside or doors.learning or _me() != tape.thread:
                return old(self, *args, **kwargs)
            return outermost(old, self, args, kwargs)

        return call

    doors._calls = any_call, plain
    doors.replace(module_class, "__call__", any_call)


def _door_of_its_own(doors: Doors, cls: type, make: Callable[[type, Any], Any]) -> None:
    if cls not in doors._classes and len(doors._classes) <= _AT_MOST:
        own = cls.__dict__.get("__call__", _ABSENT)
        doors._classes.add(cls)
        doors.replace(cls, "__call__", make(cls, own))


def _backward(doors: Doors) -> None:
    import torch
    from torch.compiler import is_compiling

    mark, tape = doors.tape.mark, doors.tape

    def door(old: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(old)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or _me() != tape.thread:
                return old(tensors, *args, **kwargs)
            try:
                mark(_clock() << BITS | 8)
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                doors.failed(error)
                return old(tensors, *args, **kwargs)
            if doors.look:
                doors.guarded(doors.listener.loss, tensors)
            try:
                if doors.through is not None and old is plain:
                    return doors.through(old, tensors, args, kwargs)
                return old(tensors, *args, **kwargs)
            finally:
                mark(_clock() << BITS | 9)

        return backward

    plain = torch.autograd.backward
    doors.replace(torch.autograd, "backward", door(plain))
    doors.replace(torch.autograd, "grad", door(torch.autograd.grad))


def _optimizers(doors: Doors) -> None:
    from torch.compiler import is_compiling
    from torch.optim import Optimizer, optimizer

    mark, tape, listener = doors.tape.mark, doors.tape, doors.listener
    numbers = doors._numbers

    def before(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling() or _me() != tape.thread:
            return
        try:
            number = numbers.get(id(stepped))
            if number is None:
                number = doors.number_of(stepped, listener.updates)
            mark(_clock() << BITS | number << 5 | 10)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)

    def after(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling() or _me() != tape.thread:
            return
        try:
            mark(_clock() << BITS | numbers.get(id(stepped), _LAST) << 5 | 11)
            doors.updates += 1
            wanted = doors.updates >= doors.wake
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return
        if wanted:
            doors.guarded(listener.stepped)

    doors._hooks.append(optimizer.register_optimizer_step_pre_hook(before))
    doors._hooks.append(optimizer.register_optimizer_step_post_hook(after))
    _after_init(doors, Optimizer, listener.built_optimizer)


def _others(doors: Doors) -> None:
    import torch
    from torch.optim.lr_scheduler import LRScheduler

    _after_init(doors, LRScheduler, doors.listener.built_scheduler)
    _after_init(doors, torch.amp.GradScaler, doors.listener.built_scaler)
    doors.replace(torch, "save", saving(doors, torch.save))


def saving(doors: Doors, old: Callable[..., Any]) -> Callable[..., Any]:
    """Return `old`, a function that writes (thing, path), with a door before it."""

    @functools.wraps(old)
    def save(thing: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        started = _clock()
        try:
            return old(thing, f, *args, **kwargs)
        finally:
            ended = _clock()
            doors.quietly(written, started, ended)
            doors.guarded(doors.listener.saved, thing, f, (ended - started) / 1e9)

    def written(started: int, ended: int) -> None:
        doors.tape.note(Code.SAVE, at=started)
        doors.tape.note(Code.SAVE_END, at=ended)

    return save
