"""Configuration files as the script loads them: their text, and which of their keys it reads.

The loaders of yaml, json and tomllib are wrapped; a mapping they return is given back as a dict
that notes what is read from it. It is a dict in every other way, and yaml dumps it as one.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from hotloop.core.around import Config
from hotloop.probe.frames import here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotloop.core.case import Case
    from hotloop.probe.arrivals import Arrivals
    from hotloop.probe.doors import Doors

__all__ = ["Configs", "Noted"]

LONGEST = 256 << 10  # characters of a file that are kept
MOST_KEYS = 2_000  # of a file that is taken for a configuration, not for data
MOST_FILES = 20
_LOADERS = {
    "yaml": ("load", "safe_load", "full_load"),
    "json": ("load",),
    "tomllib": ("load",),
}
_ENDINGS = (".yaml", ".yml", ".json", ".toml")


class Noted(dict[Any, Any]):
    """A dict that notes which keys are read: ("a", "b") for d["a"]["b"].

    Whoever goes through all of it, or hands it on with **, is taken to read everything below.
    """

    __slots__ = ("_path", "_seen")

    def __init__(self, values: dict[Any, Any], path: tuple[str, ...], seen: set[str]) -> None:
        super().__init__()
        self._path, self._seen = path, seen
        for key, value in values.items():
            dict.__setitem__(self, key, _noted(value, (*path, str(key)), seen))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(dict.items(self)),)

    def _read(self, key: Any) -> None:
        self._seen.add(".".join((*self._path, str(key))))

    def _read_all(self) -> None:
        for key in dict.keys(self):
            self._read(key)
            value = dict.__getitem__(self, key)
            if isinstance(value, Noted):
                value._read_all()

    def __getitem__(self, key: Any) -> Any:
        self._read(key)
        return dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        self._read(key)
        return dict.__contains__(self, key)

    def __iter__(self) -> Iterator[Any]:
        self._read_all()
        return dict.__iter__(self)

    def get(self, key: Any, default: Any = None) -> Any:
        """Read one key."""
        self._read(key)
        return dict.get(self, key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Read one key and take it out."""
        self._read(key)
        return dict.pop(self, key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Read one key."""
        self._read(key)
        return dict.setdefault(self, key, default)

    def __or__(self, other: Any) -> Any:
        self._read_all()
        return dict.__or__(self, other)

    def __ror__(self, other: Any) -> Any:
        self._read_all()
        return dict.__ror__(self, other)

    def keys(self) -> Any:
        """Read everything."""
        self._read_all()
        return dict.keys(self)

    def values(self) -> Any:
        """Read everything."""
        self._read_all()
        return dict.values(self)

    def items(self) -> Any:
        """Read everything."""
        self._read_all()
        return dict.items(self)

    def copy(self) -> dict[Any, Any]:
        """Read everything."""
        self._read_all()
        return dict(dict.items(self))


def _noted(value: Any, path: tuple[str, ...], seen: set[str]) -> Any:
    return Noted(value, path, seen) if type(value) is dict else value


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else 0


class Configs:
    """Remembers the configuration files that were loaded."""

    def __init__(self) -> None:
        self._loaded: list[tuple[str, str, set[str], Any]] = []  # path, text, keys read, place

    def wait(self, arrivals: Arrivals, doors: Doors) -> None:
        """Wrap each library's loaders once it is there."""
        for name, functions in _LOADERS.items():
            arrivals.when(
                name,
                lambda name=name, functions=functions: doors.guarded(  # type: ignore[misc]
                    self._wrap, doors, sys.modules[name], functions
                ),
            )

    def _wrap(self, doors: Doors, module: Any, functions: tuple[str, ...]) -> None:
        for function in functions:
            doors.replace(module, function, self._loading(doors, getattr(module, function)))
        if module.__name__ == "yaml":
            as_dict = module.representer.SafeRepresenter.represent_dict
            for dumper in (module.SafeDumper, module.Dumper):
                dumper.add_representer(Noted, lambda d, v: as_dict(d, dict(dict.items(v))))

    def _loading(self, doors: Doors, load: Callable[..., Any]) -> Callable[..., Any]:
        def loading(stream: Any, *args: Any, **kwargs: Any) -> Any:
            value = load(stream, *args, **kwargs)
            if type(value) is dict and len(self._loaded) < MOST_FILES:
                noted = doors.guarded(self._note, stream, value)
                return value if noted is None else noted
            return value

        loading.__name__, loading.__doc__ = load.__name__, load.__doc__
        return loading

    def _note(self, stream: Any, value: dict[Any, Any]) -> Noted | None:
        path = getattr(stream, "name", None)
        place = here()
        if not isinstance(path, str) or not path.endswith(_ENDINGS) or place is None:
            return None  # data, or a library's own file
        if _count(value) > MOST_KEYS:
            return None
        seen: set[str] = set()
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(LONGEST)
        self._loaded.append((os.path.abspath(path), text, seen, place))
        return Noted(value, (), seen)

    def add_to(self, case: Case) -> Case:
        """Add the files to the case."""
        from dataclasses import replace

        found = [
            Config(path=path, text=text, read=tuple(sorted(seen)), place=place)
            for path, text, seen, place in self._loaded
        ]
        return replace(case, configs=(*case.configs, *found))
