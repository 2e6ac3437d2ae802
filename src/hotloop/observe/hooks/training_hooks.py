"""The doors of loaders, backward passes, optimizers and saves."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import BITS, EventCode
from hotloop.observe.hooks.hooks import LAST, unseen
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["backward", "loaders", "optimizers", "others", "saving"]

_clock, _me = time.perf_counter_ns, threading.get_ident
_EXHAUSTED = int(EventCode.EXHAUSTED)


def loaders(doors: Hooks) -> None:
    """Put up the doors of data loaders."""
    from torch.utils.data import dataloader

    base, mark, tape = dataloader._BaseDataLoaderIter, doors.tape.mark, doors.tape
    numbers: dict[int, int] = {}  # id of an iterator, which must not show it, -> of its loader

    def built(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        started = _clock()
        numbers.pop(id(self), None)  # another's, that is gone
        old_init(self, loader, *args, **kwargs)
        ended = _clock()
        number = doors.guarded(doors.listener.iterating, loader, self)
        numbers[id(self)] = LAST if number is None else min(number, LAST)
        doors.quietly(epoch, self, started, ended)

    def reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        started = _clock()
        old_reset(self, loader, first_iter)
        if not first_iter:  # a persistent iterator starts its next epoch
            ended = _clock()
            doors.guarded(doors.listener.epoch, loader)
            doors.quietly(epoch, self, started, ended)

    def epoch(iterator: Any, started: int, ended: int) -> None:
        number = numbers.get(id(iterator), LAST)
        tape.note(EventCode.ITERATE, number, at=started)
        tape.note(EventCode.ITERATE_END, number, at=ended)

    def next_batch(self: Any) -> Any:
        if _me() != doors.thread:
            return old_next(self)
        try:
            number = numbers.get(id(self), LAST) << 5
            mark(_clock() << BITS | number)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return old_next(self)
        try:
            batch = old_next(self)
        except StopIteration:
            mark(_clock() << BITS | number | _EXHAUSTED)
            raise
        except BaseException:
            mark(_clock() << BITS | number | 1)
            raise
        mark(_clock() << BITS | number | 1)
        if doors.look:
            doors.guarded(doors.listener.took, number >> 5, batch)
        return batch

    old_init = doors.replace(base, "__init__", functools.wraps(base.__init__)(built))
    old_reset = doors.replace(base, "_reset", functools.wraps(base._reset)(reset))
    old_next = doors.replace(base, "__next__", functools.wraps(base.__next__)(next_batch))
    _asking(doors, dataloader.DataLoader)


def _asking(doors: Hooks, cls: Any) -> None:
    """Tell of each new loader, and when an iterator of one is asked for."""
    _after_init(doors, cls, doors.listener.built_loader)

    def iterate(self: Any) -> Any:
        if _me() == doors.thread:
            doors.guarded(doors.listener.asked, self)
        return old(self)

    old = doors.replace(cls, "__iter__", functools.wraps(cls.__iter__)(iterate))


def _after_init(doors: Hooks, cls: Any, tell: Callable[[Any], None]) -> None:
    """Tell of each new instance when this class's constructor is done, a subclass's may not be."""
    old = cls.__init__

    @functools.wraps(old)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        old(self, *args, **kwargs)
        doors.guarded(tell, self)

    doors.replace(cls, "__init__", unseen(init))


def backward(doors: Hooks) -> None:
    """Put up the doors of torch.autograd."""
    import torch
    from torch.compiler import is_dynamo_compiling as is_compiling

    mark = doors.tape.mark

    def door(old: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(old)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or _me() != doors.thread:
                return old(*args, **kwargs)
            try:
                mark(_clock() << BITS | 8)
                if doors.timed is not None:
                    doors.timed(8)
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                doors.failed(error)
                return run(args, kwargs)
            if doors.look:
                doors.guarded(doors.listener.loss, _first(args, kwargs))
            before, doors.inside = doors.inside, True  # what a checkpoint runs again is no new pass
            try:
                result = old(*args, **kwargs) if doors.through is None else run(args, kwargs)
            finally:
                doors.inside = before
                mark(_clock() << BITS | 9)
                if doors.timed is not None:
                    doors.quietly(doors.timed, 9)
            if doors.by_hand:
                doors.updates += 1
                if doors.updates >= doors.wake:
                    doors.guarded(doors.listener.stepped)
            return result

        def run(args: Any, kwargs: Any) -> Any:
            if doors.through is None or old is not plain:
                return old(*args, **kwargs)
            tensors = args[0] if args else kwargs.pop("tensors")
            return doors.through(old, tensors, args[1:], kwargs)

        unseen(backward)
        unseen(run)
        return backward

    plain = torch.autograd.backward
    for name in ("backward", "grad"):
        new = door(getattr(torch.autograd, name))
        doors.replace(torch.autograd, name, new)
        _tell_torchscript(new, f"aten::{name}")


def _tell_torchscript(function: Any, operator: str) -> None:
    """Have it take a door for the operator behind it: it knows functions by their identity."""
    try:
        from torch.jit._builtins import _register_builtin
    except ImportError:  # a torch without it
        return
    _register_builtin(function, operator)


def optimizers(doors: Hooks) -> None:
    """Put up the doors of optimizers."""
    from torch.compiler import is_dynamo_compiling as is_compiling
    from torch.optim import Optimizer, optimizer

    mark, listener = doors.tape.mark, doors.listener
    numbers = doors._numbers

    def before(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        if _me() != doors.thread:
            doors.elsewhere = True
            return
        try:
            number = numbers.get(id(stepped))
            if number is None:
                number = doors.number_of(stepped, listener.updates)
            mark(_clock() << BITS | number << 5 | 10)
            if doors.timed is not None:
                doors.timed(10)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)

    def after(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling() or _me() != doors.thread:
            return
        try:
            mark(_clock() << BITS | numbers.get(id(stepped), LAST) << 5 | 11)
            doors.updates += 1
            if doors.timed is not None:
                doors.timed(11)
            wanted = doors.updates >= doors.wake
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return
        if wanted:
            doors.guarded(listener.stepped)

    doors._hooks.append(optimizer.register_optimizer_step_pre_hook(unseen(before)))
    doors._hooks.append(optimizer.register_optimizer_step_post_hook(unseen(after)))

    def built(made: Any) -> None:
        if doors.by_hand:
            doors.by_hand, doors.updates, doors.wake = False, 0, 1
        listener.built_optimizer(made)

    _after_init(doors, Optimizer, built)


def others(doors: Hooks) -> None:
    """Put up the doors of schedulers, scalers and torch.save."""
    import torch
    from torch.optim.lr_scheduler import LRScheduler

    _after_init(doors, LRScheduler, doors.listener.built_scheduler)
    _after_init(doors, torch.amp.GradScaler, doors.listener.built_scaler)
    doors.replace(torch, "save", saving(doors, torch.save))


def saving(doors: Hooks, old: Callable[..., Any]) -> Callable[..., Any]:
    """Return `old`, a function that writes (thing, path), with a door before it."""

    @functools.wraps(old)
    def save(*args: Any, **kwargs: Any) -> Any:
        started = _clock()
        try:
            result = old(*args, **kwargs)
        finally:
            ended = _clock()
            doors.quietly(written, started, ended)
        doors.guarded(told, args, kwargs, (ended - started) / 1e9)
        return result

    def told(args: Any, kwargs: Any, seconds: float) -> None:
        thing, path = inspect.signature(old).bind(*args, **kwargs).args[:2]
        doors.listener.saved(thing, path, seconds)

    def written(started: int, ended: int) -> None:
        doors.tape.note(EventCode.SAVE, at=started)
        doors.tape.note(EventCode.SAVE_END, at=ended)

    return save


def _first(args: Any, kwargs: Any) -> Any:
    """Return the tensors that backward begins from: the first argument, under whatever name."""
    return args[0] if args else next(iter(kwargs.values()), None)


hide(globals())
