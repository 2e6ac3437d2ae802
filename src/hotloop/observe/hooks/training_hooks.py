"""The hooks of loaders, backward passes, optimizers and saves; installs all hooks."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks import module_hooks
from hotloop.observe.hooks.event_buffer import BITS, EventCode
from hotloop.observe.hooks.hooks import LAST, unseen
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["backward", "install", "loaders", "optimizers", "others", "saving"]

_clock, _me = time.perf_counter_ns, threading.get_ident
_EXHAUSTED = int(EventCode.EXHAUSTED)


def install(hooks: Hooks) -> None:
    """Install all hooks, after torch has been imported."""
    unseen(hooks.guarded, below=True)
    unseen(hooks.quietly, below=True)
    loaders(hooks)
    module_hooks.modules(hooks)
    backward(hooks)
    optimizers(hooks)
    others(hooks)


def loaders(hooks: Hooks) -> None:
    """Install the hooks of data loaders."""
    from torch.utils.data import dataloader

    base, mark, events = dataloader._BaseDataLoaderIter, hooks.events.mark, hooks.events
    numbers: dict[int, int] = {}  # id of an iterator -> number of its loader; no attribute is added

    def built(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        started = _clock()
        numbers.pop(id(self), None)  # of a freed iterator with the same id
        old_init(self, loader, *args, **kwargs)
        ended = _clock()
        number = hooks.guarded(hooks.listener.on_iterator_created, loader, self)
        numbers[id(self)] = LAST if number is None else min(number, LAST)
        hooks.quietly(epoch, self, started, ended)

    def reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        started = _clock()
        old_reset(self, loader, first_iter)
        if not first_iter:  # a persistent iterator starts its next epoch
            ended = _clock()
            hooks.guarded(hooks.listener.on_epoch, loader)
            hooks.quietly(epoch, self, started, ended)

    def epoch(iterator: Any, started: int, ended: int) -> None:
        number = numbers.get(id(iterator), LAST)
        events.span(EventCode.ITERATE, started, ended, number)

    def next_batch(self: Any) -> Any:
        if _me() != hooks.thread:
            return old_next(self)
        try:
            number = numbers.get(id(self), LAST) << 5
            mark(_clock() << BITS | number)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            hooks.failed(error)
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
        if hooks.look:
            hooks.guarded(hooks.listener.on_batch, number >> 5, batch)
        return batch

    old_init = hooks.replace(base, "__init__", functools.wraps(base.__init__)(built))
    old_reset = hooks.replace(base, "_reset", functools.wraps(base._reset)(reset))
    old_next = hooks.replace(base, "__next__", functools.wraps(base.__next__)(next_batch))
    _asking(hooks, dataloader.DataLoader)


def _asking(hooks: Hooks, cls: Any) -> None:
    """Report each new loader, and each request for an iterator of one."""
    _after_init(hooks, cls, hooks.listener.on_loader_built)

    def iterate(self: Any) -> Any:
        if _me() == hooks.thread:
            hooks.guarded(hooks.listener.on_iterator_requested, self)
        return old(self)

    old = hooks.replace(cls, "__iter__", functools.wraps(cls.__iter__)(iterate))


def _after_init(hooks: Hooks, cls: Any, notify: Callable[[Any], None]) -> None:
    """Report each new instance after this class's constructor, perhaps before a subclass's."""
    old = cls.__init__

    @functools.wraps(old)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        old(self, *args, **kwargs)
        hooks.guarded(notify, self)

    hooks.replace(cls, "__init__", unseen(init))


def backward(hooks: Hooks) -> None:
    """Install the hooks of torch.autograd."""
    import torch
    from torch.compiler import is_dynamo_compiling as is_compiling

    mark = hooks.events.mark

    def hook(old: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(old)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or _me() != hooks.thread:
                return old(*args, **kwargs)
            try:
                mark(_clock() << BITS | 8)
                if hooks.timed is not None:
                    hooks.timed(8)
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                hooks.failed(error)
                return run(args, kwargs)
            if hooks.look:
                hooks.guarded(hooks.listener.on_backward, _first(args, kwargs), old is plain)
            if hooks.differentiated is not None:
                hooks.quietly(hooks.differentiated, _first(args, kwargs), old is plain)
            before, hooks.inside = hooks.inside, True  # recomputing is no new pass
            try:
                result = old(*args, **kwargs) if hooks.through is None else run(args, kwargs)
            finally:
                hooks.inside = before
                mark(_clock() << BITS | 9)
                if hooks.timed is not None:
                    hooks.quietly(hooks.timed, 9)
            if hooks.by_hand:
                hooks.updates += 1
                if hooks.updates >= hooks.wake:
                    hooks.guarded(hooks.listener.after_step)
            return result

        def run(args: Any, kwargs: Any) -> Any:
            if hooks.through is None or old is not plain:
                return old(*args, **kwargs)
            tensors = args[0] if args else kwargs.pop("tensors")
            return hooks.through(old, tensors, args[1:], kwargs)

        unseen(backward)
        unseen(run)
        return backward

    plain = torch.autograd.backward
    for name in ("backward", "grad"):
        new = hook(getattr(torch.autograd, name))
        hooks.replace(torch.autograd, name, new)
        _tell_torchscript(new, f"aten::{name}")


def _tell_torchscript(function: Any, operator: str) -> None:
    """Register a hook with TorchScript, which identifies an operator by its function object."""
    try:
        from torch.jit._builtins import _register_builtin
    except ImportError:  # a torch without it
        return
    _register_builtin(function, operator)


def optimizers(hooks: Hooks) -> None:
    """Install the hooks of optimizers."""
    from torch.compiler import is_dynamo_compiling as is_compiling
    from torch.optim import Optimizer, optimizer

    mark, listener = hooks.events.mark, hooks.listener
    numbers = hooks._numbers

    def before(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        if _me() != hooks.thread:
            hooks.elsewhere = True
            return
        try:
            number = numbers.get(id(stepped))
            if number is None:
                number = hooks.number_of(stepped, listener.on_optimizer_first_step)
            mark(_clock() << BITS | number << 5 | 10)
            if hooks.timed is not None:
                hooks.timed(10)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            hooks.failed(error)

    def after(stepped: Any, args: Any, kwargs: Any) -> None:
        if is_compiling() or _me() != hooks.thread:
            return
        try:
            mark(_clock() << BITS | numbers.get(id(stepped), LAST) << 5 | 11)
            hooks.updates += 1
            if hooks.timed is not None:
                hooks.timed(11)
            is_due = hooks.updates >= hooks.wake
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            hooks.failed(error)
            return
        if is_due:
            hooks.guarded(listener.after_step)

    hooks.when_down(optimizer.register_optimizer_step_pre_hook(unseen(before)))
    hooks.when_down(optimizer.register_optimizer_step_post_hook(unseen(after)))

    def built(made: Any) -> None:
        if hooks.by_hand:
            hooks.by_hand, hooks.updates, hooks.wake = False, 0, 1
        listener.on_optimizer_built(made)

    _after_init(hooks, Optimizer, built)


def others(hooks: Hooks) -> None:
    """Install the hooks of schedulers, scalers and torch.save."""
    import torch
    from torch.optim.lr_scheduler import LRScheduler

    _after_init(hooks, LRScheduler, hooks.listener.on_scheduler_built)
    _after_init(hooks, torch.amp.GradScaler, hooks.listener.on_scaler_built)
    hooks.replace(torch, "save", saving(hooks, torch.save))


def saving(hooks: Hooks, old: Callable[..., Any]) -> Callable[..., Any]:
    """Return `old`, a function that writes (object, path), with a hook around it."""

    @functools.wraps(old)
    def save(*args: Any, **kwargs: Any) -> Any:
        started = _clock()
        try:
            result = old(*args, **kwargs)
        finally:
            ended = _clock()
            hooks.quietly(hooks.events.span, EventCode.SAVE, started, ended)
        hooks.guarded(told, args, kwargs, (ended - started) / 1e9)
        return result

    def told(args: Any, kwargs: Any, seconds: float) -> None:
        saved, path = inspect.signature(old).bind(*args, **kwargs).args[:2]
        hooks.listener.on_save(saved, path, seconds)

    return save


def _first(args: Any, kwargs: Any) -> Any:
    """Return the tensors from which backward begins: the first argument, whatever its name."""
    return args[0] if args else next(iter(kwargs.values()), None)


hide(globals())
