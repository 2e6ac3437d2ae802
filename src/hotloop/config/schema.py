"""Declares fields of configuration dataclasses with their default, meaning and allowed values."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_origin, get_type_hints

from hotloop.config.values import FieldRule, typed

__all__ = ["Setting", "changed", "flatten", "setting", "setting_text", "settings_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One leaf of a schema."""

    key: str
    kind: object
    rule: FieldRule

    @property
    def is_map(self) -> bool:
        """Return whether the setting is a map, whose entries look like keys below it."""
        return get_origin(self.kind) is Mapping

    def text(self, value: object) -> str:
        """Return a value of this setting as it would be typed."""
        return typed(value, self.rule)


def setting(
    default: T,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    choices: Iterable[str] = (),
    duration: bool = False,
) -> T:
    """Declare a field with its default, its meaning and the limits of its values."""
    rule = FieldRule(
        meaning=meaning,
        low=low,
        high=high,
        low_open=low_open,
        high_open=high_open,
        choices=tuple(choices),
        duration=duration,
    )
    if isinstance(default, dict):
        return cast("T", dataclasses.field(default_factory=default.copy, metadata={"rule": rule}))
    return dataclasses.field(default=default, metadata={"rule": rule})


def settings_of(schema: type) -> Mapping[str, Setting]:
    """Return the leaves of a schema by dotted key, in the order of declaration."""
    return MappingProxyType({leaf.key: leaf for leaf in _leaves(schema, "")})


def _leaves(schema: type, prefix: str) -> Iterator[Setting]:
    kinds = get_type_hints(schema)
    for field in dataclasses.fields(schema):
        kind, key = kinds[field.name], prefix + field.name
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from _leaves(kind, f"{key}.")
        else:
            yield Setting(key=key, kind=kind, rule=field.metadata["rule"])


def flatten(config: object) -> dict[str, Any]:
    """Return a configuration as {dotted key: JSON value}; a tuple becomes a list."""
    flat: dict[str, Any] = {}
    for key in settings_of(type(config)):
        value: Any = functools.reduce(getattr, key.split("."), config)
        if isinstance(value, tuple):
            value = list(value)
        flat[key] = dict(value) if isinstance(value, Mapping) else value
    return flat


def changed(config: object) -> dict[str, Any]:
    """Return the settings that differ from their defaults, in the form of `flatten`."""
    flat, defaults = flatten(config), flatten(type(config)())
    return {key: value for key, value in flat.items() if value != defaults[key]}


def setting_text(config: object, key: str, origins: Mapping[str, str]) -> str:
    """Return 'key=value (origin)' for an error message; without an origin, 'key=value'."""
    text = f"{key}={settings_of(type(config))[key].text(flatten(config)[key])}"
    return f"{text} ({origins[key]})" if key in origins else text
