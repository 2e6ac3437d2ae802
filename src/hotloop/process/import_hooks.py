"""Calls a function after a module has been imported, whoever imports it.

Hooks must be installed before the script uses PyTorch, and torch must not be imported before the
script imports it: a script may set environment variables that torch reads on import.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["ImportHooks"]

_IMPORTLIB = "<frozen importlib._bootstrap>"


class ImportHooks:
    """A finder that finds no modules itself, but wraps the loaders that other finders return."""

    def __init__(self) -> None:
        self._waiting: dict[str, Callable[[], None]] = {}
        self._looking: set[str] = set()

    def when(self, name: str, then: Callable[[], None]) -> None:
        """Call `then` once module `name` has been imported; at once if it already is."""
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            then()
            return
        self._waiting[name] = then
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def arrived(self, names: Iterable[str]) -> None:
        """Call what waits for these modules, which came without an import (see process/preload)."""
        for name in [name for name in names if name in self._waiting]:
            self._waiting.pop(name)()

    def stop(self) -> None:
        """Stop waiting for modules."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the other finders with a wrapped loader (importlib's protocol)."""
        if name not in self._waiting or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = _spec_of_others(name, path, target, self)
        finally:
            self._looking.discard(name)
        loader: Any = spec and spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        inner = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # Uncover the class's method; it may be gone if another hook wrapped the loader too.
            vars(loader).pop("exec_module", None)
            inner(module)
            if (then := self._waiting.pop(name, None)) is not None:
                then()

        # Python removes importlib's frames from the traceback of a failing import only if no other
        # frame is between them (remove_importlib_frames in CPython's Python/import.c).
        exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORTLIB)
        loader.exec_module = exec_module
        return spec


def _spec_of_others(
    name: str, path: Sequence[str] | None, target: ModuleType | None, but: ImportHooks
) -> ModuleSpec | None:
    for finder in [finder for finder in sys.meta_path if finder is not but]:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, target) if find else None
        if spec is not None:
            return spec
    return None
