"""Whose code a stack frame is from: the project's own, or a library's."""

from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
import sysconfig
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.core.case.steps_and_loaders import Frame
from hotloop.core.env import compile_cache
from hotloop.core.finding import SourceLocation
from hotloop.core.package import INSIDE

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType, FrameType

__all__ = [
    "caller_of_model",
    "directly",
    "framework",
    "here",
    "is_hotloop",
    "is_own",
    "names",
    "shown",
    "spot",
    "walk",
]

DEEPEST = 120  # frames of a stack that are walked
INNERMOST = 12  # frames that are always shown; further out, the project's own and their callees
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        sysconfig.get_path("scripts"),  # the launcher: bin/hotloop is on every stack
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib")),
    }
)
_FRAMEWORKS = {  # in this order, because Trainer uses Accelerate, and Lightning's uses Fabric
    "/transformers/trainer": "transformers",
    "/lightning/pytorch/": "lightning",
    "/pytorch_lightning/": "lightning",
    "/lightning/fabric/": "fabric",
    "/lightning_fabric/": "fabric",
    "/accelerate/": "accelerate",
}
_ASKS = {"locals", "vars", "dir", "eval", "exec"}  # they return a function's names
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is neither a library's, nor hotloop's, nor generated."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return False
    if any(part in file for part in _PACKAGES):
        return False
    compiled = os.path.join(compile_cache(), "")  # torch.compile writes modules there
    return not file.startswith((INSIDE, compiled, *_LIBRARIES))


@functools.lru_cache(maxsize=4096)
def is_hotloop(file: str) -> bool:
    """Whether a file is one of hotloop's own."""
    return file.startswith(INSIDE)


def walk(frame: FrameType | None) -> tuple[tuple[CodeType, int], ...]:
    """Return the code and line of each frame, innermost first, without hotloop's own frames."""
    stack: list[tuple[CodeType, int]] = []
    while frame is not None and len(stack) < DEEPEST:
        code = frame.f_code
        if not is_hotloop(code.co_filename):
            stack.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(stack)


def names(frame: FrameType) -> dict[str, Any]:
    """Return the values of a frame's names: local names first, then global ones.

    Up to Python 3.12 a function's `f_locals` is a copy that stays with the frame and keeps objects
    alive that the function has released. So it is emptied again, and not requested where the
    function may use such a copy itself.
    """
    own: dict[str, Any] = {}
    copied = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if not (copied and _asks(frame.f_code)):
        own = dict(frame.f_locals)
    if own and copied:
        frame.f_locals.clear()
    return {**own, **{name: v for name, v in frame.f_globals.items() if name not in own}}


@functools.lru_cache(maxsize=256)
def _asks(code: CodeType) -> bool:
    """Whether a function may have asked for its names as a dict."""
    steps = () if _ASKS.isdisjoint(code.co_names) else dis.get_instructions(code)
    return any(step.opname == "LOAD_GLOBAL" and step.argval in _ASKS for step in steps)


def shown(stack: tuple[tuple[CodeType, int], ...]) -> tuple[Frame, ...]:
    """Return a stack as facts: the innermost frames, the project's own frames and their callees."""
    own = [*(is_own(code.co_filename) for code, _ in stack), False]
    return tuple(
        Frame(
            file=os.path.abspath(code.co_filename) if own[depth] else code.co_filename,
            line=line or code.co_firstlineno,
            function=code.co_qualname,
            own=own[depth],
        )
        for depth, (code, line) in enumerate(stack)
        if depth < INNERMOST or own[depth] or own[depth + 1]
    )


def here(*, imports: bool = True) -> SourceLocation | None:
    """Return the innermost line of the project's own code that is running in this thread.

    Without `imports`, return None if an import lies between that line and the caller.
    """
    location = spot(imports=imports)
    return location and SourceLocation(file=os.path.abspath(location[0]), line=location[1])


def spot(*, imports: bool = True) -> tuple[str, int] | None:
    """Return the file and line that `here` would; cheaper, for hooks that are called often."""
    for frame, line in walk_stack(sys._getframe(1)):
        if is_own(file := frame.f_code.co_filename):
            return file, line
        if not imports and file.startswith("<frozen importlib"):
            return None
    return None


def caller_of_model() -> tuple[SourceLocation | None, str | None]:
    """Return the project's line that runs a model, and the class whose forward() it calls itself.

    The latter is None where it calls the model: then no forward() of the project is on the stack.
    """
    torch, owner = sys.modules["torch"], None
    for frame, line in walk_stack(sys._getframe(1)):
        if not is_own(file := frame.f_code.co_filename):
            continue
        model = names(frame).get("self") if frame.f_code.co_name == "forward" else None
        if not isinstance(model, torch.nn.Module):
            return SourceLocation(file=os.path.abspath(file), line=line), owner
        owner = type(model).__name__
    return None, owner


def directly(through: Collection[str]) -> SourceLocation | None:
    """Return the line of the project's own code that calls this, directly or `through` modules.

    These are top-level module names. None if another module's code lies between.
    """
    for frame, line in walk_stack(sys._getframe(1)):
        file = frame.f_code.co_filename
        if is_own(file):
            return SourceLocation(file=os.path.abspath(file), line=line)
        name = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name not in through and not is_hotloop(file):
            return None
    return None


def framework() -> str:
    """Return the framework whose loop is on this thread's stack, or "plain" for none."""
    files = [code.co_filename.replace(os.sep, "/") for code, _ in walk(sys._getframe(1))]
    names = (name for part, name in _FRAMEWORKS.items() if any(part in file for file in files))
    return next(names, "plain")
