"""The door of the modules: sees each call of an outermost module, and at first of every module."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from hotloop.probe.doors import ABSENT, AT_MOST
from hotloop.probe.tape import BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.probe.doors import Doors

__all__ = ["modules"]

_clock, _me = time.perf_counter_ns, threading.get_ident


def modules(doors: Doors) -> None:
    """Put up the door."""
    import torch
    from torch.compiler import is_compiling

    tape, listener, module_class = doors.tape, doors.listener, torch.nn.Module
    plain = module_class.__call__

    def looked_at(module: Any, args: Any, kwargs: Any) -> Any:
        doors.guarded(listener.inside, module, args, kwargs)
        output = plain(module, *args, **kwargs)
        doors.guarded(listener.left, module, output)
        return output

    def any_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or _me() != tape.thread:
            return plain(self, *args, **kwargs)
        if doors.inside:
            if doors.look:
                return looked_at(self, args, kwargs)
            return plain(self, *args, **kwargs)
        return outermost(plain, self, args, kwargs)

    def class_door(cls: type) -> None:
        if cls in doors._classes or len(doors._classes) > AT_MOST:
            return
        own = cls.__dict__.get("__call__", ABSENT)
        above: Any = next(base for base in cls.__mro__[1:] if "__call__" in vars(base))

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            old = above.__call__ if own is ABSENT else own
            if is_compiling() or doors.inside or doors.learning or _me() != tape.thread:
                return old(self, *args, **kwargs)
            return outermost(old, self, args, kwargs)

        doors._classes.add(cls)
        doors.replace(cls, "__call__", call)

    outermost = _outermost(doors, class_door)
    doors._calls = any_call, plain
    doors.replace(module_class, "__call__", any_call)


def _outermost(doors: Doors, class_door: Callable[[type], None]) -> Callable[..., Any]:
    """Return what calls an outermost module; `class_door` gives its class a door of its own."""
    import torch

    mark, listener, with_grad = doors.tape.mark, doors.listener, torch.is_grad_enabled

    def outermost(old: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        try:
            number = doors.number_of(module, listener.root)
            grad = with_grad()
            kind = (2 if module.training else 6) if grad else 4
            if doors.arrivals and grad:
                doors.arrive(module)
            call = doors.around.get(id(module)) if doors.around else None
            if doors.learning:
                class_door(type(module))
                if doors.settled:
                    doors.learned()
            opening = number << 5 | kind
            mark(_clock() << BITS | opening)
            if doors.timed is not None:
                doors.timed(kind)
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
            if doors.timed is not None:
                doors.quietly(doors.timed, kind | 1)
        if doors.look:
            doors.guarded(listener.passed, number, module, args, kwargs, output)
        return output

    return outermost
