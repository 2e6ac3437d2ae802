"""Runs a user's script in this process as `python script.py args` would.

argv, sys.path[0], `__main__`, working directory, exit code and traceback are the same; the only
difference is that hotloop was imported before. https://docs.python.org/3/using/cmdline.html
(2026-11).
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib.util
import io
import itertools
import os
import pkgutil
import signal
import sys
import types
import warnings
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader
from traceback import walk_stack
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.core.package import INSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import TracebackType

__all__ = ["Left", "ScriptTarget", "Stopped", "run", "starter"]


def starter(module: str) -> str:
    """Return the code for `python -c` that calls `main` of a module of hotloop with the arguments.

    `python -c` puts the working folder first on the path: it is removed during the import.
    """
    return (
        "import sys; p = sys.path; first = [] if sys.flags.safe_path else [p.pop(0)]; "
        f"from {module} import main; p[:0] = first; main(sys.argv[1:])"
    )


class Left(SystemExit):
    """Carries the exit code of a finished script past hotloop's own handlers."""


class Stopped(SystemExit):
    """Ends a script early; the script's `except Exception` does not catch it.

    The exit code is 0 wherever it is raised, also in a child process.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__(0)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTarget:
    """A script or a module with its arguments."""

    name: str  # as typed
    is_module: bool
    args: tuple[str, ...] = ()

    @classmethod
    def of(cls, argv: Sequence[str]) -> ScriptTarget:
        """Read `script.py args` or `-m module args`. Raises UsageError if there is no script."""
        if argv[:1] == ["-m"]:
            if len(argv) < 2:
                raise UsageError("-m needs the name of a module: hotloop run -m package.train")
            return cls(name=argv[1], is_module=True, args=tuple(argv[2:]))
        if not argv:
            raise UsageError("a script is missing: hotloop run [options] train.py [args]")
        path = argv[0]
        if not os.path.exists(path):
            raise UsageError(f"there is no script {path!r} in {os.getcwd()}")
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
            raise UsageError(f"{path} is a folder without a __main__.py; name a script")
        return cls(name=path, is_module=False, args=tuple(argv[1:]))

    @property
    def command(self) -> tuple[str, ...]:
        """Return the arguments of `python` that start it."""
        return ("-m", self.name, *self.args) if self.is_module else (self.name, *self.args)


def _plain_code(source: bytes, path: str) -> types.CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def run(
    target: ScriptTarget,
    *,
    finished: Callable[[BaseException | None], int | None],
    code_of: Callable[[bytes, str], types.CodeType] = _plain_code,
) -> None:
    """Run the script and leave by raising `Left` with its exit code.

    `finished` is called after the script's own code, with the exception that ended it (None for the
    last line), and before the interpreter's exit handlers. Threads may still run: they may wait for
    the end of the main thread, so Python joins them later. An exit code that `finished` returns
    replaces the script's. `code_of` compiles the source of a script file. After a KeyboardInterrupt
    the process finally dies of SIGINT, as Python does. Raises UsageError if there is nothing to
    run.
    """
    atexit.register(_die)  # first registered, so it runs last
    sys.argv = ["-m" if target.is_module else target.name, *target.args]
    sys.orig_argv = [sys.executable, *target.command]
    try:
        main = _module(target) if target.is_module else _script(target, code_of)
        if main is not None:
            module, code = main
            sys.modules["__main__"] = module
            with _nothing_below():
                exec(code, module.__dict__)
    except Left:  # a syntax error, already reported
        raise
    except BaseException as error:  # noqa: BLE001 - raised again, or reported as Python would
        _unlike_ours(error)
        raise _leaving(error, finished) from None
    if main is None:
        what = "no module called" if target.is_module else "no __main__.py in"
        raise UsageError(f"{what} {target.name!r} can be run in {os.getcwd()}")
    raise _leaving(None, finished)


@contextlib.contextmanager
def _nothing_below() -> Iterator[None]:
    """Make a warning whose `stacklevel` reaches beyond the script name the same place as in Python.

    In Python the stack ends with the script; here hotloop's own frames are below it.
    """
    plain, end = getattr(warnings, "_showwarnmsg", None), _end_of_stack()
    if plain is None:
        yield
        return

    def shown(message: warnings.WarningMessage) -> None:
        if not _is_below(message.filename, message.lineno):
            plain(message)
            return
        registry = sys.__dict__.setdefault("__warningregistry__", {})
        warnings.warn_explicit(
            message.message,
            message.category,
            *end,
            module="sys",
            registry=registry,
            source=message.source,
        )

    warnings._showwarnmsg = shown  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings._showwarnmsg = plain  # type: ignore[attr-defined]


def _end_of_stack() -> tuple[str, int]:
    """Return the file and line that this Python names if the stack has no such level."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        warnings.warn("", stacklevel=1 << 20)
    sys.__dict__.pop("__warningregistry__", None)
    return messages[0].filename, messages[0].lineno


def _is_below(file: str, line: int) -> bool:
    """Whether a frame below the script's frames is at this line, and none of the script's is."""
    stack = [(frame.f_code, number) for frame, number in walk_stack(sys._getframe(1))]
    here = next((n for n, (code, _) in enumerate(stack) if code is run.__code__), len(stack))
    lines = [(code.co_filename, number) for code, number in stack]
    return (file, line) in lines[here:] and (file, line) not in lines[:here]


def _leaving(
    error: BaseException | None, finished: Callable[[BaseException | None], int | None]
) -> Left:
    """Report `error` as Python would, call `finished`, and return the exception to exit with."""
    if error is not None and not isinstance(error, SystemExit):
        _report(error)
    other = finished(error)
    if other is not None:
        return Left(other)
    if isinstance(error, KeyboardInterrupt):
        _DIES.append(signal.SIGINT)
        return Left(130)
    if isinstance(error, SystemExit):
        return Left(error.code)
    return Left(0 if error is None else 1)


_DIES: list[signal.Signals] = []


def _die() -> None:
    """Die of the signal, so that a shell sees that the script was interrupted."""
    if _DIES and os.name == "posix":
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        signal.signal(_DIES[0], signal.SIG_DFL)
        os.kill(os.getpid(), _DIES[0])


def _report(error: BaseException) -> None:
    """Print an uncaught exception as the interpreter does, through sys.excepthook."""
    kind, trace = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    try:
        sys.excepthook(kind, error, trace)
    except BaseException as fault:  # noqa: BLE001 - as the interpreter does; both are printed
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(fault), fault, fault.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(kind, error, trace)
        if isinstance(fault, SystemExit):
            raise Left(fault.code) from None
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()


def _unlike_ours(error: BaseException) -> None:
    """Remove hotloop's frames from the tracebacks of an exception, its causes and contexts."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_ours(error.__traceback__)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without frames of this package."""
    entries = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(INSIDE):
            entries.append(trace)
        trace = trace.tb_next
    for frame, following in itertools.zip_longest(entries, entries[1:]):
        frame.tb_next = following
    return entries[0] if entries else None


def _script(
    target: ScriptTarget, code_of: Callable[[bytes, str], types.CodeType]
) -> tuple[types.ModuleType, types.CodeType] | None:
    path = os.path.join(os.getcwd(), target.name)  # as in Python: "..", "." and links stay
    if pkgutil.get_importer(path) is not None:  # a folder, or a zip file
        _set_path(path, always=True)
        return _by_spec(PathFinder.find_spec("__main__", [path]))
    _set_path(os.path.dirname(os.path.realpath(path)))
    with io.open_code(path) as stream:
        source = stream.read()
    module = _fresh(path, None)
    module.__loader__ = SourceFileLoader("__main__", path)
    return module, _compiled(lambda: code_of(source, path))


def _compiled(compiled: Callable[[], types.CodeType]) -> types.CodeType:
    try:
        return compiled()
    except SyntaxError as error:
        error.__traceback__ = None
        _report(error)
        raise Left(1) from None


def _module(target: ScriptTarget) -> tuple[types.ModuleType, types.CodeType] | None:
    _set_path(os.getcwd())
    spec = _spec(target.name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{target.name}.__main__")
    main = _by_spec(spec)
    if main is not None:
        sys.argv[0] = str(main[0].__file__)
    return main


def _spec(name: str) -> ModuleSpec | None:
    """Find a module; None if there is none. Exceptions of its packages pass through."""
    try:
        if package := name.rpartition(".")[0]:
            __import__(package)  # this way Python removes importlib's frames from a traceback
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return None


def _by_spec(spec: ModuleSpec | None) -> tuple[types.ModuleType, types.CodeType] | None:
    """Return the module and code that runpy would run, or None."""
    get_code = getattr(spec and spec.loader, "get_code", None)
    code = _compiled(lambda: get_code(spec.name)) if spec and get_code else None
    if spec is None or code is None:
        return None
    module = _fresh(spec.origin, spec)
    module.__loader__, module.__package__ = spec.loader, spec.parent
    return module, code


def _fresh(path: str | None, spec: ModuleSpec | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    cached = spec and spec.cached
    module.__dict__.update(__builtins__=builtins, __spec__=spec, __file__=path, __cached__=cached)
    return module


def _set_path(first: str, *, always: bool = False) -> None:
    """Set sys.path[0] as Python does; with -P or PYTHONSAFEPATH only for a folder or a zip file."""
    if not sys.flags.safe_path:
        sys.path[0] = first
    elif always:
        sys.path.insert(0, first)
