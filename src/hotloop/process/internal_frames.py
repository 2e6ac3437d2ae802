"""Hides hotloop's own frames from the `stacklevel` of other code's warnings.

`warnings.warn(text, stacklevel=2)` names the caller of the function that warns, which may be a hook
of hotloop. Python does not count frames of its import system: those of a file with both "importlib"
and "_bootstrap" in its name (is_internal_frame, Python/_warnings.c and Lib/warnings.py, 3.11 to
3.14). So the code between a script and its libraries gets such a name.
"""

from __future__ import annotations

from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["as_caller", "hide", "is_hidden"]

_MARK = " (importlib._bootstrap)"


def hide(module: Mapping[str, Any]) -> None:
    """Rename the code of all functions and methods of a module; call it as hide(globals()) last."""
    for function in _functions(module, module["__name__"]):
        function.__code__ = _renamed(function.__code__)


def is_hidden(code: CodeType) -> bool:
    """Whether Python's warnings skip frames of this code."""
    return code.co_filename.endswith(_MARK)


def as_caller(frame: FrameType, function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function written in C from a frame that looks like the first frame that is not hidden.

    A warning of such a function names the frame that calls it, whatever its file name.
    """
    while is_hidden(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
    code = _call.__code__.replace(
        co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno - 1
    )
    return FunctionType(code, frame.f_globals)(function, args, kwargs)


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)  # in the line after its first one


def _functions(names: Mapping[str, Any], module: str) -> Iterator[FunctionType]:
    """Yield the functions that a module, or a class in it, defines itself."""
    for member in list(names.values()):
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        elif isinstance(member, property):
            member = member.fget
        inner = getattr(member, "__wrapped__", member)  # under functools.cache and similar wrappers
        if getattr(inner, "__module__", None) != module:
            continue
        if isinstance(inner, FunctionType):
            yield inner
        elif isinstance(inner, type):
            yield from _functions(vars(inner), module)


def _renamed(code: CodeType) -> CodeType:
    """Return a function's code, and that of all nested functions, with the marked file name."""
    if is_hidden(code):
        return code
    inner = tuple(
        _renamed(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=code.co_filename + _MARK, co_consts=inner)


hide(globals())
