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

    tape, listener, module_class = doors.tape, doors.listener, torch.nn.Module
    plain = module_class.__call__

    def looked_at(module: Any, *args: Any, **kwargs: Any) -> Any:
        doors.guarded(listener.inside, module, args, kwargs)
        output = plain(module, *args, **kwargs)
        doors.guarded(listener.left, module, output)
        return output

    # The module is args[0]: arguments that are passed on as they came are not packed again, which
    # is most of what a door costs.
    @functools.wraps(plain)
    def any_call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (doors.inside and not doors.look) or _me() != tape.thread:
            return plain(*args, **kwargs) if kwargs else plain(*args)
        if not doors.inside:
            return outermost(plain, args, kwargs)
        return looked_at(*args, **kwargs) if doors.learning else plain(*args, **kwargs)

    outermost = unseen(_outermost(doors))
    unseen(looked_at)
    doors.replace(module_class, "__call__", unseen(any_call))


def _outermost(doors: Doors) -> Callable[..., Any]:
    """Return what calls an outermost module."""
    import torch

    mark, listener, with_grad = doors.tape.mark, doors.listener, torch.is_grad_enabled
    numbers = doors._numbers

    def outermost(old: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            module = args[0]
            number = numbers.get(id(module))
            if number is None:
                number = doors.number_of(module, listener.root)
            grad = with_grad()
            kind = (2 if module.training else 6) if grad else 4
            if doors.arrivals and grad:
                doors.arrive(module)
            call = doors.around.get(id(module)) if doors.around else None
            opening = number << 5 | kind
            mark(_clock() << BITS | opening)
            if doors.timed is not None:
                doors.timed(kind)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            doors.failed(error)
            return old(*args, **kwargs)
        doors.inside = True
        try:
            output = old(*args, **kwargs) if call is None else call(old, module, args[1:], kwargs)
        finally:
            doors.inside = False
            mark(_clock() << BITS | opening | 1)
            if doors.timed is not None:
                doors.quietly(doors.timed, kind | 1)
        if doors.look:
            doors.guarded(listener.passed, number, module, args[1:], kwargs, output)
        return output

    return outermost
