"""The door of the modules: sees each call of an outermost module, and at first of every module.

It stands at nn.Module.__call__ and stays there. Dynamo takes what it finds there when it is first
imported for PyTorch's own and leaves it out of its guards; a door that changes later, or one on a
class, had models compiled twice (tests/probe/test_door_calls.py).
"""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Any

from hotloop.probe.doors import unseen
from hotloop.probe.tape import BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.probe.doors import Doors

__all__ = ["modules"]

_clock, _me = time.perf_counter_ns, threading.get_ident


def modules(doors: Doors) -> None:
    """Put up the door."""
    import torch
    from torch.compiler import is_dynamo_compiling as is_compiling

    listener, module_class = doors.listener, torch.nn.Module
    plain = module_class.__call__

    def looked_at(module: Any, /, *args: Any, **kwargs: Any) -> Any:
        doors.guarded(listener.inside, module, args, kwargs)
        output = plain(module, *args, **kwargs)
        doors.guarded(listener.left, module, output)
        return output

    outermost = _outermost(doors, plain)

    # Every module of a model passes here: what they pass most is short, and does itself what the
    # function does that it stands before, where that is the one known.
    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (doors.inside and not doors.look) or _me() != doors.thread:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs) if kwargs else self._call_impl(*args)
        if not doors.inside:
            return outermost(self._compiled_call_impl or self._call_impl, self, args, kwargs)
        return looked_at(self, *args, **kwargs) if doors.learning else plain(self, *args, **kwargs)

    @functools.wraps(plain)
    def call_other(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (doors.inside and not doors.look) or _me() != doors.thread:
            return plain(self, *args, **kwargs)
        if not doors.inside:
            return outermost(functools.partial(plain, self), self, args, kwargs)
        return looked_at(self, *args, **kwargs) if doors.learning else plain(self, *args, **kwargs)

    for function in (outermost, looked_at, call, call_other):
        unseen(function)
    known = plain.__code__.co_code == _known_call.__code__.co_code
    doors.replace(module_class, "__call__", call if known else call_other)


def _known_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Do what nn.Module.__call__ does in torch 2.13; it is only compared with."""
    if self._compiled_call_impl is not None:
        return self._compiled_call_impl(*args, **kwargs)
    else:  # noqa: RET505 - as it is written there, so that it compiles to the same
        return self._call_impl(*args, **kwargs)


def _outermost(doors: Doors, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls an outermost module."""
    import torch

    mark, listener, with_grad = doors.tape.mark, doors.listener, torch.is_grad_enabled
    is_tracing = torch._C._get_tracing_state
    numbers = doors._numbers

    def outermost(run: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        number = numbers.get(id(module))
        if (number is None or doors.look) and is_tracing() is not None:
            return run(*args, **kwargs)  # torch.jit.trace sees each operation of ours
        try:
            if number is None:
                number = doors.number_of(module, listener.root)
            grad = with_grad()
            kind = (2 if module.training else 6) if grad else 4
            if doors.arrivals and grad:
                doors.arrive(module)
            call = doors.around.get(id(module)) if doors.around else None
            opening = number << 5 | kind
            now = _clock()
            if kind == 4 and module.training:
                doors.tape.unset.append(now)
            mark(now << BITS | opening)
            if doors.timed is not None:
                doors.timed(kind)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            call = doors.around.get(id(module))  # techniques stay in all the same
            return run(*args, **kwargs) if call is None else call(plain, module, args, kwargs)
        doors.inside = True
        try:
            output = run(*args, **kwargs) if call is None else call(plain, module, args, kwargs)
        finally:
            doors.inside = False
            mark(_clock() << BITS | opening | 1)
            if doors.timed is not None:
                doors.quietly(doors.timed, kind | 1)
        if doors.look:
            doors.guarded(listener.passed, number, module, args, kwargs, output)
        return output

    return outermost
