"""Converts frozen dataclasses to JSON and back, by their annotations."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from hotloop.core.errors import DataError, did_you_mean

__all__ = ["from_json", "to_json"]

_T = TypeVar("_T")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # JSON has no words for them


def to_json(value: Any, *, schema: int | None = None) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON can hold them, after the number of a schema.

    A value inside it that has a `to_json` of its own decides for itself.
    """
    head = {} if schema is None else {"schema": schema}
    fields = {field.name: _inner(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {**head, **fields}


def _inner(value: object) -> object:
    own = getattr(value, "to_json", None)
    if own is not None:
        return own()
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): _inner(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(value) if _is_plain(value) else [_inner(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Path) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if isinstance(value, bool | int | float | str | None):
        return value
    # Numbers of numpy come from users' samplers, batch sizes and settings.
    number = getattr(value, "item", None)
    return value if number is None else _inner(number())


def _is_plain(items: Sequence[object]) -> bool:
    """Whether JSON can hold all items as they are; long series of numbers mostly are so."""
    kinds = {*map(type, items)}
    if kinds == {float}:
        return all(map(math.isfinite, typing.cast("Sequence[float]", items)))
    return kinds <= {bool, int, str}


def from_json(kind: type[_T], raw: object, *, place: str = "") -> _T:
    """Return an instance of the dataclass `kind` from the result of `to_json`.

    Absent fields take their default. Raises DataError that names the place.
    """
    where = place or kind.__name__.lower()
    if not isinstance(raw, Mapping):
        raise DataError(f"{where}: expected an object, got {type(raw).__name__}")
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in raw:
        if name not in known:
            raise DataError(f"{where} has no field {name!r}{did_you_mean(str(name), known)}")
    values = {name: _read(hints[name], raw[name], f"{where}.{name}") for name in known & set(raw)}
    try:
        return kind(**values)
    except TypeError as error:  # a field without a default is missing
        raise DataError(f"{where}: {error}") from error


def _read(hint: Any, raw: Any, place: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if raw is None and type(None) in args:
            return None
        return _read(next(arg for arg in args if arg is not type(None)), raw, place)
    if origin is Literal:
        if raw not in args:
            raise DataError(f"{place}: expected one of {', '.join(map(str, args))}, got {raw!r}")
        return raw
    if origin is tuple:
        return _tuple(args, raw, place)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(raw, Mapping):
            raise DataError(f"{place}: expected an object, got {type(raw).__name__}")
        return {key: _read(args[1], item, f"{place}.{key}") for key, item in raw.items()}
    if hasattr(hint, "from_json"):
        return hint.from_json(raw, place=place)
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast("type[Any]", hint), raw, place=place)
    return _scalar(hint, raw, place)


def _tuple(args: tuple[Any, ...], raw: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise DataError(f"{place}: expected a list, got {type(raw).__name__}")
    if args[-1] is Ellipsis and {*map(type, raw)} == {args[0]}:
        return tuple(raw)  # scalars of the right type
    kinds = [args[0]] * len(raw) if args[-1] is Ellipsis else list(args)
    if len(kinds) != len(raw):
        raise DataError(f"{place}: expected {len(kinds)} values, got {len(raw)}")
    pairs = enumerate(zip(kinds, raw, strict=True))
    return tuple(_read(kind, item, f"{place}[{index}]") for index, (kind, item) in pairs)


def _scalar(hint: Any, raw: Any, place: str) -> Any:
    if hint is float and isinstance(raw, str) and raw in _FLOATS:
        return _FLOATS[raw]
    if hint is float and type(raw) is int:
        return float(raw)
    if type(raw) is not hint:
        raise DataError(f"{place}: expected {hint.__name__}, got {raw!r}")
    return raw
