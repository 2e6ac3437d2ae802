"""Resolves layers of settings into a typed configuration with the origin of each value."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from hotloop.config.layers import RESOLVED, SettingsLayer
from hotloop.config.schema import (
    Plain,
    Setting,
    convert,
    expected,
    flatten,
    settings_of,
    show,
    typed,
)
from hotloop.core.errors import ConfigError

__all__ = ["DEFAULT", "Renamed", "Resolved", "SettingRow", "differences", "rebuild", "resolve"]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

DEFAULT = "default"
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


class Renamed(NamedTuple):
    """A setting that was written in the spelling of an older project."""

    old: str
    new: str
    origin: str


class SettingRow(NamedTuple):
    """One line of `--show-config`."""

    key: str
    value: str  # as it would be typed
    origin: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Generic[S_co]):
    """A configuration with the origin of every value."""

    config: S_co
    origins: Mapping[str, str]  # of every key; layers.COMMAND_LINE when typed
    requested: frozenset[str]  # keys that the user set
    renamed: tuple[Renamed, ...]

    def rows(self) -> list[SettingRow]:
        """Return one row for each setting, in the order of the schema."""
        values = flatten(self.config)
        spelt = {new: f", written {old}" for old, new, _ in self.renamed}
        return [
            SettingRow(
                key,
                leaf.text(values[key]),
                self.origins[key] + spelt.get(key, ""),
                leaf.rule.meaning,
            )
            for key, leaf in settings_of(type(self.config)).items()
        ]

    def given(self) -> dict[str, Any]:
        """Return the settings of the user, in the form of `flatten`."""
        return {key: value for key, value in flatten(self.config).items() if key in self.requested}


def resolve(
    schema: type[S], layers: Sequence[SettingsLayer], aliases: Mapping[str, str] = _NO_ALIASES
) -> Resolved[S]:
    """Return the schema's defaults overridden by the layers; the last layer wins.

    The last layer that sets a map, or an entry of it, replaces the whole map. Raises ConfigError
    with one line for each key or value that does not fit.
    """
    values: dict[str, object] = {}
    origins = dict.fromkeys(settings_of(schema), DEFAULT)
    requested: set[str] = set()
    renamed: dict[str, Renamed] = {}
    problems: list[str] = []
    for layer in layers:
        reading = _read(schema, layer, aliases)
        problems += reading.problems
        for key, value in reading.values.items():
            values[key], origins[key] = value, layer.where(reading.spelt[key])
            (requested.add if layer.requested else requested.discard)(key)
            renamed.pop(key, None)
            if (old := reading.spelt[key]) in aliases:
                renamed[key] = Renamed(old, key, origins[key])
    if problems:
        raise ConfigError("\n".join(problems))
    return Resolved(
        config=_overlay(schema(), values, ""),
        origins=origins,
        requested=frozenset(requested),
        renamed=tuple(renamed.values()),
    )


def rebuild(schema: type[S], flat: Mapping[str, object], origin: str) -> S:
    """Return the configuration of a run for its settings in the form of `flatten`.

    An absent key has the value of runs before it existed, else its default. Raises ConfigError when
    a key or value does not fit the schema.
    """
    before = {key: leaf.rule.before for key, leaf in settings_of(schema).items()}
    known = {key: value for key, value in before.items() if value is not None}
    return resolve(schema, [SettingsLayer(origin=origin, values={**known, **flat})]).config


def differences(saved: Mapping[str, object], requested: Mapping[str, object]) -> list[str]:
    """Return one line for each requested setting that differs from the run's saved settings."""
    return [
        f"{key}: run has {typed(saved.get(key))}, asked {typed(value)}"
        for key, value in requested.items()
        if key not in saved or saved[key] != value
    ]


def _overlay(config: Any, values: Mapping[str, object], prefix: str) -> Any:
    changes = {}
    for field in dataclasses.fields(config):
        key, now = prefix + field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(now):
            changes[field.name] = _overlay(now, values, f"{key}.")
        elif key in values:
            changes[field.name] = values[key]
    return dataclasses.replace(config, **changes)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One layer with converted values; `spelt` maps a key to its spelling in the layer."""

    values: dict[str, object]
    spelt: dict[str, str]
    problems: list[str]


def _read(schema: type, layer: SettingsLayer, aliases: Mapping[str, str]) -> _Reading:
    settings = settings_of(schema)
    raws: dict[str, object] = {}
    reading = _Reading({}, {}, [])
    for old, raw in layer.values.items():
        key = aliases.get(old, old)
        leaf, entry = _leaf(settings, key)
        place, name = layer.where(old), show(Plain(old))
        if leaf is None:
            if raw != {} or not _names_in(settings, f"{old}."):  # an empty section says nothing
                reading.problems.append(f"{place}: {_stray(settings, aliases, old, raw)}")
        elif leaf.key in raws and not leaf.is_map:
            earlier = reading.spelt[leaf.key]
            reading.problems.append(f"{place}: {name} and {earlier} are the same setting; keep one")
        else:
            reading.spelt.setdefault(leaf.key, old)
            raws[leaf.key] = _joined(raws.get(leaf.key), {entry: raw} if entry else raw)
    for key, raw in raws.items():
        try:
            reading.values[key] = convert(settings[key].kind, settings[key].rule, raw)
        except ConfigError as error:
            old = reading.spelt[key]
            reading.problems.append(f"{layer.where(old)}: {old}: {error}")
    return reading


def _leaf(settings: Mapping[str, Setting], key: str) -> tuple[Setting | None, str]:
    """Return the setting that a key belongs to and, for an entry of a map, the entry's name."""
    if key in settings:
        return settings[key], ""
    for leaf in settings.values():
        if leaf.is_map and key.startswith(f"{leaf.key}."):
            return leaf, key.removeprefix(f"{leaf.key}.")
    return None, ""


def _joined(before: object, raw: object) -> object:
    if isinstance(before, Mapping) and isinstance(raw, Mapping):
        return {**before, **raw}
    return raw


def _stray(
    settings: Mapping[str, Setting], aliases: Mapping[str, str], key: str, raw: object
) -> str:
    """Return why the schema does not have a key, with a suggestion."""
    if key == "defaults" and isinstance(raw, list):
        return f"unknown key 'defaults': it lists files, which are not read; {RESOLVED}"
    parent = next((leaf for leaf in settings.values() if key.startswith(f"{leaf.key}.")), None)
    if parent is not None:
        return f"{parent.key} is one value ({expected(parent.kind, parent.rule)}), not a section"
    if names := _names_in(settings, f"{key}."):
        return f"{key} is a section, expected {key}.NAME with NAME one of {names}; got {show(raw)}"
    section, _, leaf_name = key.rpartition(".")
    names = _names_in(settings, f"{section}." if section else "")
    spellings = {name: name for name in settings} | dict(aliases)
    suggestions = sorted(
        {new for old, new in spellings.items() if old.rpartition(".")[2] == leaf_name}
    )
    if not suggestions and names:  # a prefix in common must not make two names alike
        near = difflib.get_close_matches(leaf_name, names.split(", "), n=1)
        suggestions = [f"{section}.{name}".removeprefix(".") for name in near]
    suggestions = suggestions or ([] if names else difflib.get_close_matches(key, settings, n=1))
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
    listed = f"; {section or 'the top level'} takes {names}" if names else ""
    return f"unknown key {str(key)!r}{hint or listed or '; known: ' + _names_in(settings, '')}"


def _names_in(settings: Mapping[str, Setting], section: str) -> str:
    names = [key.removeprefix(section) for key in settings if key.startswith(section)]
    return ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
