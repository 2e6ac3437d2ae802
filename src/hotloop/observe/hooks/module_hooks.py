"""The hook of modules: sees each call of an outermost module and, at first, of every module.

It replaces nn.Module.__call__ for the whole run. Dynamo takes the method that it finds at its
first import for PyTorch's own and leaves it out of its guards; a hook that changed later, or one
on a class, caused models to be compiled twice (tests/observe/hooks/test_module_hooks.py).
"""

from __future__ import annotations

import dis
import functools
import threading
import time
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import BITS
from hotloop.observe.hooks.hooks import unseen
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["modules"]

_clock, _me = time.perf_counter_ns, threading.get_ident


def modules(hooks: Hooks) -> None:
    """Install the hook."""
    import torch
    from torch.compiler import is_dynamo_compiling as is_compiling

    listener, module_class = hooks.listener, torch.nn.Module
    plain = module_class.__call__
    outermost = _outermost(hooks)

    def seen(run: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not hooks.inside:
            return outermost(run, module, args, kwargs)
        if not hooks.learning:
            return run(*args, **kwargs)
        hooks.guarded(listener.on_inner_call, module, args, kwargs)
        output = run(*args, **kwargs)
        hooks.guarded(listener.on_inner_return, module, output)
        return output

    # Every module of a model passes here, so the usual path is short: it does itself what the
    # replaced function does, if that is the known one.
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = self._compiled_call_impl or self._call_impl
        if not (is_compiling() or (hooks.inside and not hooks.look) or _me() != hooks.thread):
            run = functools.partial(seen, run, self)
        return run(*args, **kwargs) if kwargs else run(*args)

    @functools.wraps(plain)
    def call_other(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (hooks.inside and not hooks.look) or _me() != hooks.thread:
            return plain(self, *args, **kwargs)
        return seen(functools.partial(plain, self), self, *args, **kwargs)

    is_known = plain.__code__.co_code == _known_call.__code__.co_code
    if is_known:
        call = functools.wraps(plain)(_in_place_of(plain, call))
    for function in (outermost, seen, call, call_other):
        unseen(function)
    for name in [name for name, method in vars(module_class).items() if method is plain]:
        hooks.replace(module_class, name, call if is_known else call_other)


def _in_place_of(plain: Any, ours: Any) -> Any:
    """Return `ours` with a frame that looks like that of `plain`, which is not called.

    Warnings and tracebacks then name the call with which `plain` ends.
    """
    code, plain_code = ours.__code__, plain.__code__
    last = [step for step in dis.get_instructions(plain_code) if step.opname.startswith("CALL")][-1]
    where = last.positions
    assert where is not None
    ours.__code__ = code.replace(
        co_filename=plain_code.co_filename,
        co_name=plain_code.co_name,
        co_qualname=plain_code.co_qualname,
        co_firstlineno=where.lineno,
        co_linetable=_all_at(where, len(code.co_code) // 2),
    )
    return ours


def _all_at(where: dis.Positions, units: int) -> bytes:
    """Return the line table of a code object all of whose units have one position, in line 1.

    An entry covers at most 8 units: CPython's Objects/locations.md, 3.11 to 3.14.
    """
    line, end, column, end_column = where
    kind, place = 13, b"\0"  # without columns
    if line is not None and end is not None and column is not None and end_column is not None:
        kind, place = 14, b"\0" + bytes((end - line, column + 1, end_column + 1))
        assert max(place) < 64, "numbers of one byte"
    entries = (bytes((0x80 | kind << 3 | min(8, units - unit) - 1,)) for unit in range(0, units, 8))
    return b"".join(entry + place for entry in entries)


def _known_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Do what nn.Module.__call__ does in torch 2.13; only the bytecode is compared."""
    if self._compiled_call_impl is not None:
        return self._compiled_call_impl(*args, **kwargs)
    else:  # noqa: RET505 - as it is written there, so that it compiles to the same
        return self._call_impl(*args, **kwargs)


def _outermost(hooks: Hooks) -> Callable[..., Any]:
    """Return the function that calls an outermost module."""
    import torch

    mark, listener, with_grad = hooks.events.mark, hooks.listener, torch.is_grad_enabled
    is_tracing = torch._C._get_tracing_state
    numbers = hooks._numbers

    def outermost(run: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        number = numbers.get(id(module))
        if (number is None or hooks.look) and is_tracing() is not None:
            return run(*args, **kwargs)  # torch.jit.trace would record the hook's own operations
        try:
            if number is None:
                number = hooks.number_of(module, listener.on_root_module)
            grad = with_grad()
            kind = (2 if module.training else 6) if grad else 4
            if hooks.announces_first_forward and grad:
                hooks.first_forward(module)
            call = hooks.around.get(id(module)) if hooks.around else None
            opening = number << 5 | kind
            now = _clock()
            if kind == 4 and module.training:
                hooks.events.unset.append(now)
            mark(now << BITS | opening)
            if hooks.timed is not None:
                hooks.timed(kind)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            hooks.failed(error)
            call = hooks.around.get(id(module))  # techniques stay in effect
            return run(*args, **kwargs) if call is None else call(run, args, kwargs)
        hooks.inside = True
        try:
            output = run(*args, **kwargs) if call is None else call(run, args, kwargs)
        finally:
            hooks.inside = False
            mark(_clock() << BITS | opening | 1)
            if hooks.timed is not None:
                hooks.quietly(hooks.timed, kind | 1)
        if hooks.look:
            hooks.guarded(listener.after_forward, number, module, args, kwargs, output)
        return output

    return outermost


hide(globals())
