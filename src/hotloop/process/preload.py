"""Imports modules ahead of a script and hides them until the script imports them itself.

A process that was forked after `Preload` runs a script as a fresh one would: a module is not in
`sys.modules` before its first import, import hooks see it come, and only the seconds of the import
are saved. A module may read environment variables on import, and the script's folder may hold
another module of that name. Then no hidden module fits, and `differs` is called, which must start a
fresh process.
"""

from __future__ import annotations

import importlib
import sys
import time
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

from hotloop.core.env import inherited
from hotloop.process.import_hooks import ImportHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

__all__ = ["Preload", "saved_seconds"]

# A process of hotloop sets them for the children of its script; no library reads them on import.
_OURS = ("HOTLOOP_", "PYTHONPATH")
_saved = 0.0


def saved_seconds() -> float:
    """Return the seconds that imports have taken which this process did not have to repeat."""
    return _saved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The modules that came with the import of one module."""

    modules: Mapping[str, ModuleType]
    seconds: float  # of the import


class Preload:
    """The hidden modules, as a finder of `sys.meta_path`."""

    def __init__(self, names: Sequence[str]) -> None:
        """Import modules in this order and hide them. A module that is missing is skipped."""
        self._groups = {name: group for name in names if (group := _imported(name)) is not None}
        for name, group in self._groups.items():
            for module in group.modules:
                del sys.modules[module]
            parent, _, child = name.rpartition(".")
            if parent in self._groups:  # its package has it as an attribute after the import
                vars(self._groups[parent].modules[parent]).pop(child, None)
        self._environment: dict[str, str] | None = None
        self._differs: Callable[[], object] = lambda: None

    def arm(self, differs: Callable[[], object]) -> None:
        """Hand out the modules from now on, unless the environment differs from what it is now."""
        self._environment, self._differs = _environment(), differs
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a hidden module, whose loader uncovers it (importlib's protocol)."""
        head = next((head for head, group in self._groups.items() if name in group.modules), None)
        if head is None:
            return None
        module = self._groups[head].modules[name]
        if _environment() != self._environment or not _is_first_found(module):
            sys.meta_path.remove(self)
            self._differs()
            return None
        loader: Any = _Uncover(self, head, module)
        return ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))

    def uncover(self, head: str, name: str) -> None:
        """Put a module into `sys.modules`, with all that came with it if it is a group's head."""
        global _saved
        group = self._groups[head]
        if name == head:
            _saved += group.seconds
            names = set(group.modules)
        else:
            package = name.partition(".")[0]
            names = {each for each in group.modules if each.partition(".")[0] == package}
        rest = {each: module for each, module in group.modules.items() if each not in names}
        self._groups[head] = replace(group, modules=rest)
        if not rest:
            del self._groups[head]
        names.discard(name)  # importlib puts it in itself
        sys.modules.update({each: group.modules[each] for each in names})
        for hooks in [finder for finder in sys.meta_path if isinstance(finder, ImportHooks)]:
            hooks.arrived(names)


class _Uncover:
    """Loads a module that is there already."""

    def __init__(self, preload: Preload, head: str, module: ModuleType) -> None:
        self._preload, self._head, self._module = preload, head, module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module; importlib sets its spec."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec again, and uncover those that came with it."""
        module.__spec__ = self._spec
        self._preload.uncover(self._head, module.__name__)


def _imported(name: str) -> _Group | None:
    before, began = set(sys.modules), time.process_time()  # others may compute meanwhile
    try:
        importlib.import_module(name)
    except ImportError:
        return None
    seconds = time.process_time() - began
    new = {
        each: module
        for each, module in sys.modules.items()
        if each not in before and each.partition(".")[0] not in sys.stdlib_module_names
    }
    return _Group(modules=new, seconds=seconds) if name in new else None


def _is_first_found(module: ModuleType) -> bool:
    """Whether the script's path leads to this module, if it is not part of a package."""
    if "." in module.__name__ or module.__spec__ is None:
        return True
    found = PathFinder.find_spec(module.__name__)
    return found is not None and found.origin == module.__spec__.origin


def _environment() -> dict[str, str]:
    """Return the variables that a library may read."""
    return {key: value for key, value in inherited().items() if not key.startswith(_OURS)}
