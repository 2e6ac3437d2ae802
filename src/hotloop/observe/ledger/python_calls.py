"""Finds calls of the project's own functions with the arguments and the result of an earlier call.

Tokenising, decoding, slicing and building tables are no operators: their repetition shows in hashes
of what goes in and what comes out. Only a result that holds something counts, a text, an array or a
list: a function that returns nothing or a number may be called for what it changes.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import xxhash

from hotloop.observe.hooks.describe import own_nbytes
from hotloop.observe.hooks.stack_frames import is_own
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

__all__ = ["PythonCalls"]

_LARGEST = 1 << 20  # bytes of a value that is hashed
_LONGEST, _DEEPEST = 4096, 4  # items and levels of a container that is hashed
_LEAST = 16  # items or bytes from which a result holds something
_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_ASIDE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _UnhashedError(Exception):
    """A value that has no hash by its content."""


class PythonCalls:
    """Looks at every call of the main thread from `start` to `stop`."""

    def __init__(self, step: Callable[[], int]) -> None:
        self.fault: Exception | None = None
        self._step = step  # number of the step
        self._seen: dict[CodeType, dict[int, list[int]]] = defaultdict(dict)  # values -> steps
        self._calls: dict[CodeType, int] = defaultdict(int)
        self._open: dict[FrameType, int | None] = {}  # hash of the arguments
        self._is_own: dict[CodeType, bool] = {}
        self._call = self._event  # one object, to be recognised

    def start(self) -> None:
        """Begin, unless the script is being profiled."""
        if sys.getprofile() is None:
            sys.setprofile(self._call)

    def stop(self) -> None:
        """End, unless somebody else has taken the place since."""
        if sys.getprofile() is self._call:
            sys.setprofile(None)
        self._open.clear()

    def again(self) -> dict[tuple[str, str], float]:
        """Return the share of repeated calls by file and qualified name of the function."""
        shares = {}
        for code, values in self._seen.items():
            # What comes in several steps comes in all; what comes in one step is needed once.
            calls = sum(len(steps) - (len(set(steps)) == 1) for steps in values.values())
            if calls:
                name = os.path.abspath(code.co_filename), code.co_qualname
                shares[name] = calls / self._calls[code]
        return shares

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return") or self.fault is not None:
            return
        code = frame.f_code
        own = self._is_own.get(code)
        if own is None:
            own = is_own(code.co_filename) and not code.co_flags & _ASIDE
            own = self._is_own[code] = own and not code.co_name.startswith("<")
        if not own:
            return
        try:
            if event == "call":
                self._open[frame] = _arguments(frame)
            elif frame in self._open:
                self._returned(code, self._open.pop(frame), argument)
        except Exception as error:  # noqa: BLE001 - the script goes on, without these calls
            self.fault = error

    def _returned(self, code: CodeType, arguments: int | None, result: Any) -> None:
        self._calls[code] += 1
        if arguments is None or not _holds(result):
            return
        try:
            value = hash((arguments, tuple(_parts(result))))
        except _UnhashedError:
            return
        self._seen[code].setdefault(value, []).append(self._step())


def _arguments(frame: FrameType) -> int | None:
    """Return a hash of a function's arguments: of objects by identity, of values by content."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    try:
        arguments = [values[name] for name in code.co_varnames[:count] if name in values]
        return hash(tuple(part for value in arguments for part in _parts(value, by_identity=True)))
    except _UnhashedError:
        return None


def _holds(result: Any) -> bool:
    """Whether a result holds something that had to be made."""
    if (bytes_ := own_nbytes(result)) is not None:
        return bytes_ >= _LEAST
    return isinstance(result, str | bytes | list | tuple | dict) and bool(
        len(result) >= _LEAST or any(map(_holds, _items(result)))
    )


def _items(value: Any) -> list[Any]:
    if isinstance(value, str | bytes):
        return []
    return list(value.values()) if isinstance(value, dict) else list(value)


def _parts(value: Any, depth: int = 0, *, by_identity: bool = False) -> Iterator[Any]:
    """Yield what a value consists of. Raises _UnhashedError."""
    yield type(value).__name__
    if isinstance(value, _SIMPLE):
        yield value
    elif isinstance(value, list | tuple | dict):
        if depth == _DEEPEST or len(value) > _LONGEST:
            raise _UnhashedError
        items = value.items() if isinstance(value, dict) else value
        yield len(value)
        for item in items:
            yield from _parts(item, depth + 1, by_identity=by_identity)
    elif (content := _bytes(value)) is not None:
        yield content
    elif by_identity and own_nbytes(value) is None:
        yield id(value)
    else:
        raise _UnhashedError


def _bytes(value: Any) -> Any:
    """Return shape and hash of an array or a tensor in memory; None of anything else."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return None
        if value.is_conj() or value.is_neg() or value.dtype is torch.bfloat16:
            return None
        with importlib.import_module("torch.utils._python_dispatch")._disable_current_modes():
            value = torch._C.TensorBase.numpy(value.detach())  # not the window's own method
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.hasobject:
        return None
    if value.nbytes > _LARGEST:
        return None
    data = numpy.ascontiguousarray(value).view(numpy.uint8).reshape(-1)
    return value.shape, value.dtype.str, xxhash.xxh3_64_intdigest(data)


hide(globals())
